//! A real reverse proxy: nginx, with the configuration that `host/docs/authentication.md` recommends.

use super::certificates::Authority;
use super::child::Program;
use super::port::Port;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const MISSING: &str = "nginx with njs is needed (Debian: apt-get install nginx libnginx-mod-http-js)";

/// The folders in which distributions install nginx's modules.
const MODULES: [&str; 3] = ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"];

pub(crate) struct Proxy {
    _program: Program,
    _port: Port,
    pub(crate) address: String,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy in front of the address `gateway`. It accepts client certificates of `clients` and has one of `servers`.
    pub(crate) fn start(gateway: &str, clients: &Authority, servers: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        servers.server().write(at, "server");
        fs::write(at.join("clients-ca.pem"), clients.pem()).unwrap();
        let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/docs/proxies");
        fs::copy(documented.join("certificate.js"), at.join("certificate.js")).unwrap();
        // nginx does not support port 0.
        let port = Port::reserve();
        let address = port.address.to_string();
        let site = fs::read_to_string(documented.join("operation-gateway.conf")).unwrap();
        let site = replace(&site, "/etc/nginx/operation-gateway", at.to_str().unwrap());
        let site = replace(&site, "listen 443 ssl;", &format!("listen {address} ssl;"));
        let site = replace(&site, "127.0.0.1:9200", gateway);
        fs::write(at.join("site.conf"), site).unwrap();
        fs::write(at.join("nginx.conf"), nginx_config(at)).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(at).args(["-c", "nginx.conf", "-e", "stderr"]);
        let mut program = Program::start(&mut command, MISSING);
        program.wait_for_line("OS:");
        Self { _program: program, _port: port, address, _folder: folder }
    }
}

/// nginx's main configuration: one process, all files in `folder`, and the documented part included as `site.conf`.
fn nginx_config(folder: &Path) -> String {
    let module = MODULES.map(|modules| PathBuf::from(modules).join("ngx_http_js_module.so"));
    let module = module.into_iter().find(|module| module.exists()).unwrap_or_else(|| panic!("{MISSING}"));
    let folder = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.map(|name| format!("    {name}_temp_path {folder}/{name};\n")).concat();
    format!(
        "load_module {};\ndaemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr notice;\nevents {{}}\n\
         http {{\n    access_log off;\n{temporary}    include {folder}/site.conf;\n}}\n",
        module.display()
    )
}

/// Replaces text that must occur.
fn replace(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "the documented configuration lacks `{old}`");
    text.replace(old, new)
}
