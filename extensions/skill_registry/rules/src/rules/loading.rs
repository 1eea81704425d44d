//! The rules about findings of loading and of the directory scan; the profiles only set the levels.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

/// The common part of the rules whose findings come from loading.
const LOADING: Rule = Rule {
    id: "",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "",
    levels: ProfileLevels::uniform(RuleLevel::Off),
    fixable: false,
    docs: "",
    check: RuleCheck::Loading,
};

/// The common part of the rules whose findings come from the directory scan.
const READING: Rule = Rule { check: RuleCheck::Reading, ..LOADING };

/// The rules, sorted by id.
pub(super) static RULES: [Rule; 41] = [
    Rule {
        id: "allowed-tools.format",
        summary: "`allowed-tools` cannot be read",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/allowed_tools_format.md"),
        ..LOADING
    },
    Rule {
        id: "compatibility.maxLength",
        summary: "`compatibility` has more than 500 characters",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            seed_strict: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/compatibility_max_length.md"),
        ..LOADING
    },
    Rule {
        id: "description.comment",
        summary: "the description ends where a comment starts",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Note)
        },
        docs: include_str!("../../docs/description_comment.md"),
        ..LOADING
    },
    Rule {
        id: "description.maxLength",
        summary: "the description has more than 1024 characters",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/description_max_length.md"),
        ..LOADING
    },
    Rule {
        id: "disable-model-invocation.type",
        summary: "`disable-model-invocation` is neither true nor false",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/disable_model_invocation_type.md"),
        ..LOADING
    },
    Rule {
        id: "file.bom",
        summary: "the file starts with a byte order mark",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            skillscraft: RuleLevel::Off,
            seed_strict: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        fixable: true,
        docs: include_str!("../../docs/file_bom.md"),
        ..LOADING
    },
    Rule {
        id: "file.encoding",
        summary: "the file is not UTF-8",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/file_encoding.md"),
        ..LOADING
    },
    Rule {
        id: "file.maxSize",
        summary: "the file has more than 1 MiB",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/file_max_size.md"),
        ..LOADING
    },
    Rule {
        id: "file.moreFindings",
        summary: "there are more findings than are listed",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Note)
        },
        docs: include_str!("../../docs/file_more_findings.md"),
        ..LOADING
    },
    Rule {
        id: "file.notRegular",
        summary: "a SKILL.md is not a regular file",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/file_not_regular.md"),
        ..READING
    },
    Rule {
        id: "file.symlink",
        summary: "a SKILL.md or a path on the way to it is a symbolic link",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/file_symlink.md"),
        ..READING
    },
    Rule {
        id: "file.unreadable",
        summary: "a file or a directory cannot be read",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/file_unreadable.md"),
        ..READING
    },
    Rule {
        id: "frontmatter.alias",
        summary: "a value is a YAML alias",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_alias.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.anchor",
        summary: "a value has a YAML anchor",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_anchor.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.complexKey",
        summary: "a list or a map is used as a key",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_complex_key.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.duplicateKey",
        summary: "a key is repeated in the same map",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_duplicate_key.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.fenceWhitespace",
        summary: "a fence has blanks after its dashes",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            skillscraft: RuleLevel::Off,
            seed_strict: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        fixable: true,
        docs: include_str!("../../docs/frontmatter_fence_whitespace.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.leadingBlank",
        summary: "there are blank lines before the frontmatter",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Error,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        fixable: true,
        docs: include_str!("../../docs/frontmatter_leading_blank.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.maxSize",
        summary: "the frontmatter has more than 64 KiB",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/frontmatter_max_size.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.missing",
        summary: "the file does not start with a frontmatter",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/frontmatter_missing.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.multipleDocuments",
        summary: "the frontmatter has several YAML documents",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Error,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_multiple_documents.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.recovered",
        summary: "a field is not valid YAML",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Error,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        fixable: true,
        docs: include_str!("../../docs/frontmatter_recovered.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.tag",
        summary: "a value has a YAML tag",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Error,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/frontmatter_tag.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.type",
        summary: "the frontmatter is not a list of fields",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/frontmatter_type.md"),
        ..LOADING
    },
    Rule {
        id: "frontmatter.unclosed",
        summary: "the frontmatter has no closing line",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/frontmatter_unclosed.md"),
        ..LOADING
    },
    Rule {
        id: "id.invalid",
        summary: "the directory's name cannot be the id of a skill",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/id_invalid.md"),
        ..READING
    },
    Rule {
        id: "metadata.valueType",
        summary: "a metadata value is not a string",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Warning,
            skillscraft: RuleLevel::Error,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/metadata_value_type.md"),
        ..LOADING
    },
    Rule {
        id: "name.matchesDirectory",
        summary: "the name is not the directory's name",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            anthropic: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/name_matches_directory.md"),
        ..LOADING
    },
    Rule {
        id: "name.maxLength",
        summary: "the name has more than 64 characters",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/name_max_length.md"),
        ..LOADING
    },
    Rule {
        id: "name.portability",
        summary: "the name has characters outside ASCII",
        levels: ProfileLevels {
            lenient: RuleLevel::Warning,
            spec: RuleLevel::Warning,
            ..ProfileLevels::uniform(RuleLevel::Off)
        },
        docs: include_str!("../../docs/name_portability.md"),
        ..LOADING
    },
    Rule {
        id: "path.notFound",
        summary: "a path does not exist",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/path_not_found.md"),
        ..READING
    },
    Rule {
        id: "programs.ambiguous",
        summary: "two files are the same program of a skill",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/programs_ambiguous.md"),
        ..READING
    },
    Rule {
        id: "programs.ignored",
        summary: "a part of `tool.json` has no effect",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/programs_ignored.md"),
        ..READING
    },
    Rule {
        id: "programs.invalid",
        summary: "`tool.json` or a program that it names is not valid",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/programs_invalid.md"),
        ..READING
    },
    Rule {
        id: "programs.unsupported",
        summary: "`tool.json` declares a kind of tools that is not a skill",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Error)
        },
        docs: include_str!("../../docs/programs_unsupported.md"),
        ..READING
    },
    Rule {
        id: "requires.type",
        summary: "`requires` is not a list of words",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/requires_type.md"),
        ..LOADING
    },
    Rule {
        id: "scan.limit",
        summary: "the search stopped at a limit",
        levels: ProfileLevels::uniform(RuleLevel::Error),
        docs: include_str!("../../docs/scan_limit.md"),
        ..READING
    },
    Rule {
        id: "tags.type",
        summary: "`tags` is not a list of words",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tags_type.md"),
        ..LOADING
    },
    Rule {
        id: "user-invocable.type",
        summary: "`user-invocable` is neither true nor false",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/user_invocable_type.md"),
        ..LOADING
    },
    Rule {
        id: "version.type",
        summary: "`version` is not a string",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/version_type.md"),
        ..LOADING
    },
    Rule {
        id: "when_to_use.type",
        summary: "`when_to_use` is not a string",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/when_to_use_type.md"),
        ..LOADING
    },
];
