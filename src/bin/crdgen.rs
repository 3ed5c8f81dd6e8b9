//! Writes the CRD files into the folders given, by default `crds` and `config/crd`.

use std::path::Path;

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let mut folders: Vec<String> = std::env::args().skip(1).collect();
    if folders.is_empty() {
        folders = vec!["crds".to_owned(), "config/crd".to_owned()];
    }
    let files = ax::api::crd::files().map_err(|error| anyhow::anyhow!("failed to generate the CRDs: {error}"))?;
    for folder in &folders {
        std::fs::create_dir_all(folder).with_context(|| format!("failed to create {folder}"))?;
        for (name, text) in &files {
            let path = Path::new(folder).join(name);
            std::fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
        }
    }
    Ok(())
}
