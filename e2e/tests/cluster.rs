//! The cluster under test, with ax installed from `config/default` and running the images of `target/images`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::operator;
use crate::support::cluster::root;

/// What `e2e/cluster/cluster` calls it.
const NAME: &str = "demo";

pub struct Cluster {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    /// From `e2e/cluster`, on this machine: its processes can be killed.
    own: bool,
    /// Keeps other test processes from it.
    _lock: File,
}

impl Cluster {
    /// Found, or started, and ax installed, once per process. What failed once is not tried again.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
        match SHARED.get_or_init(Self::prepare) {
            Ok(cluster) => cluster,
            Err(error) => panic!("no cluster to test on: {error}"),
        }
    }

    fn prepare() -> Result<Self, String> {
        let lock = File::options().create(true).append(true).open(std::env::temp_dir().join("ax-e2e.lock"));
        let lock = lock.map_err(|error| format!("failed to open the lock file: {error}"))?;
        lock.lock().map_err(|error| format!("failed to lock: {error}"))?;
        let given = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let ours = script(&["kubeconfig", "--tier", "node", "--name", NAME]).map(|path| PathBuf::from(path.trim()));
        let own = given.is_none() || given == ours.ok();
        let cluster = if own { Self::own(lock)? } else { Self::foreign(given.unwrap_or_default(), lock) };
        operator::install(&cluster)?;
        Ok(cluster)
    }

    fn own(lock: File) -> Result<Self, String> {
        script(&["up", "--tier", "node", "--name", NAME])?;
        let kubeconfig = script(&["kubeconfig", "--tier", "node", "--name", NAME])?;
        let programs = script(&["bin", "--tier", "node", "--name", NAME])?;
        let images = ["ax-operator", "ax-worker"].map(|name| archive(name).display().to_string());
        for image in &images {
            if !Path::new(image).is_file() {
                return Err(format!("there is no {image}: make image"));
            }
        }
        script(&["load", "--name", NAME, &images[0], &images[1]])?;
        let kubectl = Path::new(programs.trim()).join("kubectl");
        Ok(Self { kubeconfig: kubeconfig.trim().into(), kubectl, own: true, _lock: lock })
    }

    /// Its images were loaded by whoever owns it.
    fn foreign(kubeconfig: PathBuf, lock: File) -> Self {
        Self { kubeconfig, kubectl: "kubectl".into(), own: false, _lock: lock }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Runs `kubectl ARGS` in the crate's root; its output, or what it complained of.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).current_dir(root());
        output(command)
    }

    /// Stops the API server in good order, and starts it again; returns when it answers.
    pub fn restart_apiserver(&self) {
        assert!(self.own, "the API server of a cluster that is not from here is left alone");
        script(&["restart-apiserver", "--tier", "node", "--name", NAME]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// An image as a file.
pub fn archive(image: &str) -> PathBuf {
    root().join("target/images").join(image).with_extension("tar")
}

fn script(args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(root().join("e2e/cluster/cluster"));
    // With one in the environment that is not from here, the script would speak of that cluster.
    command.args(args).env_remove("KUBECONFIG");
    output(command)
}

pub fn output(mut command: Command) -> Result<String, String> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let called: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let called = format!("{program} {}", called.join(" "));
    let output = command.output().map_err(|error| format!("failed to start {called}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{called}: {}: {}{}", output.status, text(&output.stdout), text(&output.stderr))),
    }
}
