//! A certificate for servers that are started here.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A certificate for `localhost` that vouches for itself, and its key, in a folder of what is built.
pub struct Certificate {
    /// The certificate.
    pub chain: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// Makes one, by openssl.
    ///
    /// # Errors
    /// There is no openssl, or it made none.
    pub fn make(folder: &str) -> Result<Certificate, String> {
        let folder = crate::target().join(folder);
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.join(name));
        let made = Command::new("openssl")
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(' '))
            .args(
                "-addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE".split(' '),
            )
            .args(["-subj", "/CN=localhost", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&chain)
            .stderr(Stdio::null())
            .status();
        match made {
            Ok(status) if status.success() => Ok(Certificate { chain, key }),
            Ok(status) => Err(format!("openssl made no certificate: {status}")),
            Err(why) => Err(format!("openssl, for a certificate: {why}; install it")),
        }
    }

    /// What a server is started with that uses it.
    pub fn options(&self) -> String {
        let (chain, key) = (self.chain.display(), self.key.display());
        format!("-Z -o ssl_chain_cert={chain},ssl_key={key},ssl_session_cache")
    }
}
