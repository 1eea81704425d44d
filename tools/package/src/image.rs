//! The container image, as a directory in the layout of the Open Container Initiative.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::str::FromStr as _;

use oci_spec::image::{
    ANNOTATION_CREATED, ANNOTATION_DESCRIPTION, ANNOTATION_LICENSES, ANNOTATION_REF_NAME,
    ANNOTATION_TITLE, ANNOTATION_VERSION, Arch, Config, ConfigBuilder, Descriptor, HistoryBuilder,
    ImageConfiguration, ImageConfigurationBuilder, ImageIndex, ImageIndexBuilder, ImageManifest,
    ImageManifestBuilder, MediaType, OciLayout, OciLayoutBuilder, Os, PlatformBuilder,
    RootFsBuilder, Sha256Digest,
};
use serde::Serialize;

use crate::Result;
use crate::archive::{CompressionLevel, compress_gzip, unpack_tar, write_tar};
use crate::checksums::sha256_hex;
use crate::libraries::{LibraryRequirements, find_libraries, read_requirements};
use crate::time::format_rfc3339;
use crate::tree::{EXECUTABLE_MODE, FILE_MODE, PackageTree};

/// The user and group that the program runs as.
pub const USER: u32 = 65_532;
/// The home directory of the user, which is also the working directory.
pub const USER_HOME: &str = "/home/skillhost";
/// The file that names the origin of each file of the base layer.
const STATEMENT: &str = "usr/share/doc/skillhost/BASE-LAYER";
/// The certificates by which the program verifies the servers of models.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The values of an image that its files do not determine.
#[derive(Debug, Clone)]
pub struct ImageSettings<'a> {
    /// The version of the product.
    pub version: &'a str,
    /// The time of all files, in seconds since 1970.
    pub time: u64,
    /// The effort of compression.
    pub level: CompressionLevel,
}

/// Returns the layer below the program: the loader and libraries of this machine that the files of
/// a prefix need, certificates, a user and a temporary directory.
///
/// # Errors
/// A library is not found or cannot be read.
pub fn base_layer(prefix: &PackageTree, arch: &str) -> Result<PackageTree> {
    let requirements = prefix
        .files()
        .filter_map(|(_, contents)| read_requirements(contents).transpose())
        .collect::<Result<Vec<LibraryRequirements>>>()?;
    let mut layer = PackageTree::default();
    let mut statement = String::from(
        "The base layer of this image: the loader, the C library and the other libraries that\n\
         the program needs, and the certificates of public authorities, as they were installed\n\
         on the machine that made the image. Their licenses are in /usr/share/doc/PACKAGE where\n\
         that machine has them. There is no shell and no package manager.\n\nsha256  path  package\n",
    );
    let mut paths = find_libraries(&requirements, arch)?;
    if Path::new(CERTIFICATES).is_file() {
        paths.push(CERTIFICATES.into());
    }
    for path in paths {
        let contents = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let package = package_of(&path);
        let (name, version) = package.as_ref().map_or(("-", ""), |(name, version)| (name, version));
        writeln!(statement, "{}  {}  {name} {version}", sha256_hex(&contents), path.display())?;
        let copyright = format!("usr/share/doc/{name}/copyright");
        if let Ok(text) = fs::read(Path::new("/").join(&copyright)) {
            layer.insert_file(&copyright, FILE_MODE, text);
        }
        let path = path.to_str().ok_or("a library whose path is not UTF-8")?;
        let mode = if path == CERTIFICATES { FILE_MODE } else { EXECUTABLE_MODE };
        layer.insert_file(path.trim_start_matches('/'), mode, contents);
    }
    let user = format!("skillhost:x:{USER}:{USER}:skillhost:{USER_HOME}:/usr/bin/skillhost\n");
    let root = "root:x:0:0:root:/:/usr/bin/skillhost\n";
    layer.insert_file("etc/passwd", FILE_MODE, format!("{root}{user}"));
    layer.insert_file("etc/group", FILE_MODE, format!("root:x:0:\nskillhost:x:{USER}:\n"));
    layer.insert_file("etc/nsswitch.conf", FILE_MODE, "hosts: files dns\n");
    layer.insert_file(STATEMENT, FILE_MODE, statement);
    layer.insert_directory("tmp", 0o1777, 0);
    layer.insert_directory(USER_HOME.trim_start_matches('/'), 0o700, USER);
    Ok(layer)
}

/// Returns the Debian package that a file of this machine belongs to, and its version.
fn package_of(path: &Path) -> Option<(String, String)> {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // Packages list the paths before the directories in `/` became links.
    let canonical = fs::canonicalize(path).ok()?;
    let found = [path, &canonical].into_iter().find_map(|path| {
        let pattern = path.to_str()?;
        output("dpkg-query", &["--search", pattern])
            .or_else(|| output("dpkg-query", &["--search", pattern.strip_prefix("/usr")?]))
    })?;
    let name = found.split([':', ',']).next()?.to_owned();
    let version = output("dpkg-query", &["--show", "--showformat=${Version}\n", &name])?;
    Some((name, version.lines().next()?.to_owned()))
}

/// Writes an image of a base layer and an installed prefix.
///
/// # Errors
/// A file cannot be written.
pub fn write_image(
    directory: &Path,
    base: &PackageTree,
    prefix: &PackageTree,
    settings: &ImageSettings<'_>,
) -> Result<()> {
    let mut product = PackageTree::default();
    product.insert_tree("usr", prefix);
    let created = format_rfc3339(settings.time)?;
    let blobs = BlobDirectory::create(directory)?;
    let (mut layers, mut diff_ids, mut history) = (Vec::new(), Vec::new(), Vec::new());
    for (tree, comment) in [(base, "loader, libraries, certificates, user"), (&product, "product")]
    {
        let tar = write_tar(tree, "", settings.time, Vec::new())?;
        diff_ids.push(format!("sha256:{}", sha256_hex(&tar)));
        layers.push(blobs.write(MediaType::ImageLayerGzip, &compress_gzip(&tar, settings.level)?)?);
        let entry = HistoryBuilder::default().created(created.clone());
        history.push(entry.created_by("cargo xtask package").comment(comment).build()?);
    }
    let labels: HashMap<String, String> = [
        (ANNOTATION_TITLE, "skillhost"),
        (ANNOTATION_DESCRIPTION, "A nano-kernel for AI agents and a registry for Agent Skills"),
        (ANNOTATION_VERSION, settings.version),
        (ANNOTATION_LICENSES, "MIT OR Apache-2.0"),
        (ANNOTATION_CREATED, &created),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let config: Config = ConfigBuilder::default()
        .user(format!("{USER}:{USER}"))
        .env(["PATH=/usr/bin".to_owned(), format!("HOME={USER_HOME}")])
        .entrypoint(["/usr/bin/skillhost".to_owned()])
        .cmd(["--help".to_owned()])
        .working_dir(USER_HOME)
        .labels(labels.clone())
        .stop_signal("SIGTERM")
        .build()?;
    let configuration = ImageConfigurationBuilder::default()
        .created(created)
        .architecture(Arch::default())
        .os(Os::default())
        .config(config)
        .rootfs(RootFsBuilder::default().typ("layers").diff_ids(diff_ids).build()?)
        .history(history)
        .build()?;
    let configuration = blobs.write(MediaType::ImageConfig, &to_sorted_json(&configuration)?)?;
    let manifest = ImageManifestBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageManifest)
        .config(configuration)
        .layers(layers)
        .annotations(labels)
        .build()?;
    let mut manifest = blobs.write(MediaType::ImageManifest, &to_sorted_json(&manifest)?)?;
    let platform = PlatformBuilder::default().architecture(Arch::default()).os(Os::default());
    manifest.set_platform(Some(platform.build()?));
    let reference = (ANNOTATION_REF_NAME.to_owned(), settings.version.to_owned());
    manifest.set_annotations(Some(HashMap::from([reference])));
    let index = ImageIndexBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageIndex)
        .manifests([manifest])
        .build()?;
    fs::write(directory.join("index.json"), to_sorted_json(&index)?)?;
    let layout: OciLayout = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
    fs::write(directory.join("oci-layout"), to_sorted_json(&layout)?)?;
    Ok(())
}

/// Serializes with sorted keys: the order of a hash map differs between runs.
fn to_sorted_json(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(value)?)?)
}

/// The directory of all contents that descriptors refer to.
struct BlobDirectory<'d> {
    directory: &'d Path,
}

impl<'d> BlobDirectory<'d> {
    fn create(directory: &'d Path) -> Result<Self> {
        fs::create_dir_all(directory.join("blobs/sha256"))?;
        Ok(Self { directory })
    }

    /// Writes contents and returns their descriptor.
    fn write(&self, kind: MediaType, contents: &[u8]) -> Result<Descriptor> {
        let digest = sha256_hex(contents);
        fs::write(self.directory.join("blobs/sha256").join(&digest), contents)?;
        Ok(Descriptor::new(kind, contents.len() as u64, Sha256Digest::from_str(&digest)?))
    }
}

/// Reads the contents of a descriptor, and compares their size and digest.
fn read_blob(directory: &Path, descriptor: &Descriptor) -> Result<Vec<u8>> {
    let digest = descriptor.as_digest_sha256().ok_or("a descriptor without SHA-256")?;
    let contents = fs::read(directory.join("blobs/sha256").join(digest))
        .map_err(|error| format!("blob {digest}: {error}"))?;
    if contents.len() as u64 != descriptor.size() || sha256_hex(&contents) != digest {
        return Err(format!("blob {digest}: differs from its descriptor").into());
    }
    Ok(contents)
}

/// Verifies all digests of an image, unpacks its layers and returns its configuration.
///
/// # Errors
/// A blob is missing or differs, a document is not valid, or a file cannot be written.
pub fn unpack_image(image: &Path, to: &Path) -> Result<ImageConfiguration> {
    let layout = OciLayout::from_file(image.join("oci-layout"))?;
    if layout.image_layout_version() != "1.0.0" {
        return Err(format!("image layout {}", layout.image_layout_version()).into());
    }
    let index = ImageIndex::from_file(image.join("index.json"))?;
    let manifest = index.manifests().first().ok_or("an image without a manifest")?;
    let manifest = ImageManifest::from_reader(&*read_blob(image, manifest)?)?;
    let configuration = ImageConfiguration::from_reader(&*read_blob(image, manifest.config())?)?;
    let diff_ids = configuration.rootfs().diff_ids();
    if diff_ids.len() != manifest.layers().len() {
        return Err("the configuration lists other layers than the manifest".into());
    }
    for (layer, diff_id) in manifest.layers().iter().zip(diff_ids) {
        let mut tar = Vec::new();
        let blob = read_blob(image, layer)?;
        std::io::copy(&mut flate2::read::GzDecoder::new(&*blob), &mut tar)?;
        if format!("sha256:{}", sha256_hex(&tar)) != *diff_id {
            return Err(format!("layer {diff_id}: differs from the configuration").into());
        }
        unpack_tar(&*tar, to)?;
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksums::write_checksums;
    use crate::sample::sample_prefix;

    fn write_sample(directory: &Path) {
        let mut base = PackageTree::default();
        base.insert_directory("tmp", 0o1777, 0);
        let settings =
            ImageSettings { version: "0.2.0", time: 1_700_000_000, level: CompressionLevel::Fast };
        write_image(directory, &base, &sample_prefix(), &settings).unwrap();
    }

    #[test]
    fn image_unpacks_to_its_layers() {
        let directory = tempfile::tempdir().unwrap();
        let (image, root) = (directory.path().join("image"), directory.path().join("root"));
        write_sample(&image);
        let configuration = unpack_image(&image, &root).unwrap();
        let config = configuration.config().as_ref().unwrap();
        assert_eq!(config.user().as_deref(), Some("65532:65532"));
        assert_eq!(config.entrypoint().as_deref(), Some(&["/usr/bin/skillhost".to_owned()][..]));
        assert_eq!(config.labels().as_ref().unwrap()[ANNOTATION_VERSION], "0.2.0");
        let mut expected = PackageTree::default();
        expected.insert_tree("usr", &sample_prefix());
        let found = PackageTree::from_directory(&root).unwrap();
        assert!(expected.files().eq(found.files()));
        assert!(root.join("tmp").is_dir());
    }

    #[test]
    fn images_of_one_prefix_are_identical() {
        let directory = tempfile::tempdir().unwrap();
        let sums = ["a", "b"].map(|name| {
            let image = directory.path().join(name);
            write_sample(&image);
            write_checksums(&image).unwrap();
            fs::read_to_string(image.join("SHA256SUMS")).unwrap()
        });
        assert_eq!(sums[0], sums[1]);
        assert_eq!(sums[0].lines().count(), 6, "{}", sums[0]);
    }

    #[test]
    fn changed_blob_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        write_sample(&image);
        let index = ImageIndex::from_file(image.join("index.json")).unwrap();
        let digest = index.manifests()[0].as_digest_sha256().unwrap().to_owned();
        let path = image.join("blobs/sha256").join(&digest);
        let manifest = fs::read_to_string(&path).unwrap();
        fs::write(&path, manifest.replace("skillhost", "skillhast")).unwrap();
        let error = unpack_image(&image, &directory.path().join("root")).unwrap_err().to_string();
        assert_eq!(error, format!("blob {digest}: differs from its descriptor"));
        fs::remove_file(&path).unwrap();
        let error = unpack_image(&image, &directory.path().join("root")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("blob {digest}: No such file")), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn base_layer_contains_loader_and_user() {
        let mut prefix = PackageTree::default();
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let loader = read_requirements(&program).unwrap().unwrap().loader.unwrap();
        prefix.insert_file("bin/skillhost", EXECUTABLE_MODE, program);
        let layer = base_layer(&prefix, std::env::consts::ARCH).unwrap();
        assert!(layer.contents(&loader[1..]).is_some());
        let statement = String::from_utf8(layer.contents(STATEMENT).unwrap().to_vec()).unwrap();
        assert!(statement.contains(&loader), "{statement}");
        let users = String::from_utf8(layer.contents("etc/passwd").unwrap().to_vec()).unwrap();
        assert!(users.contains("skillhost:x:65532:65532:"), "{users}");
    }
}
