"""Real proxies and origins, started on free loopback ports with a configuration of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest

PATIENCE = 20.0
"""Seconds that a program may take to listen."""


def need(program):
    """The path of *program*; without it the test is skipped, in CI it fails."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{program} is not installed")
        pytest.skip(f"{program} is not installed")
    return path


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Programs:
    """Starts programs under *folder*, and ends each at the end of the test."""

    def __init__(self, folder):
        self._folder = folder
        self._running = []

    def stop(self):
        for process, _ in self._running:
            process.terminate()
        for process, log in self._running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()

    def _home(self, name):
        home = self._folder / f"{name}-{len(self._running)}"
        home.mkdir()
        # Some of them drop root's rights, and must still reach their files.
        for folder in (home, *list(home.parents)[:5]):
            if os.access(folder, os.W_OK) and os.geteuid() == folder.stat().st_uid:
                folder.chmod(folder.stat().st_mode | 0o755)
        return home

    def _run(self, command, home, port):
        log = (home / "output.log").open("wb")
        process = subprocess.Popen([str(c) for c in command], cwd=home, stdout=log, stderr=log)
        self._running.append((process, log))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            if process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{command[0]} does not listen: {(home / 'output.log').read_text(errors='replace')}")

    def tinyproxy(self, timeout, login=None):
        home, port = self._home("tinyproxy"), free_port()
        lines = [
            f"Port {port}",
            "Listen 127.0.0.1",
            f"Timeout {timeout}",
            "MaxClients 100",
            "Allow 127.0.0.1",
            f'LogFile "{home}/log"',
            f'PidFile "{home}/pid"',
        ]
        if login:
            lines.append("BasicAuth {} {}".format(*login))
        (home / "conf").write_text("\n".join(lines) + "\n")
        return self._run([need("tinyproxy"), "-d", "-c", home / "conf"], home, port)

    def squid(self, timeout):
        home, port = self._home("squid"), free_port()
        (home / "conf").write_text(
            f"http_port 127.0.0.1:{port}\nacl blocked dstdomain .blocked.test\nhttp_access deny blocked\n"
            f"http_access allow all\nread_timeout {timeout} seconds\nforward_timeout 5 seconds\n"
            "cache deny all\naccess_log none\ncache_log /dev/null\ncache_store_log none\n"
            f"pid_filename none\ncoredump_dir /tmp\nvisible_hostname localhost\nshutdown_lifetime 0 seconds\n"
            "pinger_enable off\ndns_timeout 1 seconds\n"
        )
        return self._run([need("squid"), "-N", "-f", home / "conf"], home, port)

    def dante(self):
        home, port = self._home("dante"), free_port()
        (home / "conf").write_text(
            f"logoutput: stderr\ninternal: 127.0.0.1 port = {port}\nexternal: lo\n"
            "clientmethod: none\nsocksmethod: none\nuser.unprivileged: nobody\n"
            "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\nsocks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
        )
        return self._run([need("danted"), "-f", home / "conf"], home, port)

    def nginx(self, pem, extra=""):
        home, port = self._home("nginx"), free_port()
        temp = "".join(
            f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (home / "conf").write_text(
            f"daemon off;\npid {home}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; {temp}\n"
            f"server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {pem}; ssl_certificate_key {pem}; {extra}\n"
            "location / { default_type text/html; return 200 'hello from nginx'; } } }\n"
        )
        return self._run([need("nginx"), "-p", home, "-c", home / "conf"], home, port)

    def apache(self, pem, keep_alive=5, proxy=False):
        home, port = self._home("apache"), free_port()
        modules = "mpm_event authz_core authz_host dir ssl socache_shmcb" + (" proxy proxy_connect" if proxy else "")
        (home / "www").mkdir()
        (home / "www" / "index.html").write_text("hello from apache")
        loads = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in modules.split())
        serve = (
            f"ProxyRequests On\nAllowCONNECT 1-65535\nTimeout {keep_alive}\n<Proxy *>\nRequire all granted\n</Proxy>\n"
            if proxy
            else f"SSLEngine on\nSSLCertificateFile {pem}\nSSLCertificateKeyFile {pem}\nDocumentRoot {home}/www\n"
            f"DirectoryIndex index.html\n<Directory />\nAllowOverride None\n</Directory>\n"
            f"<Directory {home}/www>\nRequire all granted\n</Directory>\n"
            f"KeepAliveTimeout {keep_alive}\n"
        )
        (home / "conf").write_text(
            f"{loads}ServerName localhost\nListen 127.0.0.1:{port}\nPidFile {home}/pid\nErrorLog {home}/errors\n"
            f"Mutex file:{home} default\nServerRoot {home}\nDefaultRuntimeDir {home}\n"
            f"User nobody\nGroup nogroup\n{serve}"
        )
        return self._run([need("apache2"), "-f", home / "conf", "-DFOREGROUND"], home, port)

    def node(self, pem, keep_alive=5):
        home, port = self._home("node"), free_port()
        (home / "origin.js").write_text(
            "const fs = require('fs'), pem = fs.readFileSync(process.argv[2]);"
            "const s = require('https').createServer({key: pem, cert: pem}, (q, a) => a.end('hello from node'));"
            f"s.keepAliveTimeout = {1000 * keep_alive}; s.listen(+process.argv[3], '127.0.0.1');"
        )
        return self._run([need("node"), home / "origin.js", pem, port], home, port)
