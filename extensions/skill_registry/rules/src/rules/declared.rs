//! The rules about extended declarations, whose findings come from [`skill_compat::extended`].

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

/// The common part of the rules.
const DECLARED: Rule = Rule {
    id: "",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "",
    levels: ProfileLevels::uniform(RuleLevel::Off),
    fixable: false,
    docs: "",
    check: RuleCheck::Declared,
};

/// The rules, sorted by id.
pub(super) static RULES: [Rule; 17] = [
    Rule {
        id: "composition.contradiction",
        summary: "the composition cannot be satisfied",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/composition_contradiction.md"),
        ..DECLARED
    },
    Rule {
        id: "composition.required",
        summary: "the composition lacks a field",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/composition_required.md"),
        ..DECLARED
    },
    Rule {
        id: "composition.type",
        summary: "a part of the composition has the wrong type",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/composition_type.md"),
        ..DECLARED
    },
    Rule {
        id: "composition.unknownField",
        summary: "the composition has a field that is not used",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/composition_unknown_field.md"),
        ..DECLARED
    },
    Rule {
        id: "composition.value",
        summary: "a part of the composition cannot be read",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/composition_value.md"),
        ..DECLARED
    },
    Rule {
        id: "security.required",
        summary: "the security manifest lacks a field",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/security_required.md"),
        ..DECLARED
    },
    Rule {
        id: "security.type",
        summary: "a part of the security manifest has the wrong type",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/security_type.md"),
        ..DECLARED
    },
    Rule {
        id: "security.unknownField",
        summary: "the security manifest has a field that is not used",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/security_unknown_field.md"),
        ..DECLARED
    },
    Rule {
        id: "security.value",
        summary: "the scope of the security manifest is not valid",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/security_value.md"),
        ..DECLARED
    },
    Rule {
        id: "tests.required",
        summary: "a test scenario lacks a field",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tests_required.md"),
        ..DECLARED
    },
    Rule {
        id: "tests.type",
        summary: "a part of the test scenarios has the wrong type",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tests_type.md"),
        ..DECLARED
    },
    Rule {
        id: "tests.unknownField",
        summary: "a test scenario has a field that is not used",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tests_unknown_field.md"),
        ..DECLARED
    },
    Rule {
        id: "tests.value",
        summary: "an assertion has an unknown type",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tests_value.md"),
        ..DECLARED
    },
    Rule {
        id: "tools.required",
        summary: "a tool dependency lacks a field",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tools_required.md"),
        ..DECLARED
    },
    Rule {
        id: "tools.type",
        summary: "a part of the tool binding has the wrong type",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tools_type.md"),
        ..DECLARED
    },
    Rule {
        id: "tools.unknownField",
        summary: "the tool binding has a field that is not used",
        levels: ProfileLevels {
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tools_unknown_field.md"),
        ..DECLARED
    },
    Rule {
        id: "tools.value",
        summary: "a tool or its version cannot be read",
        levels: ProfileLevels {
            skillscraft: RuleLevel::Error,
            reference: RuleLevel::Off,
            ..ProfileLevels::uniform(RuleLevel::Warning)
        },
        docs: include_str!("../../docs/tools_value.md"),
        ..DECLARED
    },
];
