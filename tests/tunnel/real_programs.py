"""Real proxies and origins, started on free loopback ports with a configuration of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

PATIENCE = 60.0
"""Seconds that a program may take to listen, or to end."""


def need(program):
    """The path of *program*; without it the test is skipped, in CI it fails."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        go_without(program)
    return path


def go_without(program):
    if os.environ.get("CI") == "true":
        pytest.fail(f"{program} is not installed")
    pytest.skip(f"{program} is not installed")


class Programs:
    """Starts programs under *folder*, and ends each at the end of the test."""

    def __init__(self, folder):
        self._folder = folder
        self._running = []
        self._reserved = []

    def _port(self):
        """A port of our own until the end: bound and not listening, so that a program that reuses addresses can have it
        and nobody else gets it, not even as the source port of a connection.
        """
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        self._reserved.append(reserved)
        return reserved.getsockname()[1]

    def stop(self):
        for process, _ in self._running:
            process.terminate()
        for process, log in self._running:
            try:
                process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
        for reserved in self._reserved:
            reserved.close()

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
        home, port = self._home("tinyproxy"), self._port()
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
        home, port = self._home("squid"), self._port()
        (home / "conf").write_text(
            f"http_port 127.0.0.1:{port}\nacl blocked dstdomain .blocked.test\nhttp_access deny blocked\n"
            f"http_access allow all\nread_timeout {timeout} seconds\nforward_timeout 5 seconds\n"
            "cache deny all\naccess_log none\ncache_log /dev/null\ncache_store_log none\n"
            f"pid_filename none\ncoredump_dir /tmp\nvisible_hostname localhost\nshutdown_lifetime 0 seconds\n"
            "pinger_enable off\ndns_timeout 1 seconds\n"
        )
        return self._run([need("squid"), "-N", "-f", home / "conf"], home, port)

    def proxy_py(self, timeout):
        if importlib.util.find_spec("proxy") is None:
            go_without("proxy.py")
        home, port = self._home("proxy-py"), self._port()
        options = ["--timeout", timeout, "--num-workers", 1, "--num-acceptors", 1, "--data-dir", home]
        return self._run(
            [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", port, *options], home, port
        )

    def dante(self):
        home, port = self._home("dante"), self._port()
        (home / "conf").write_text(
            f"logoutput: stderr\ninternal: 127.0.0.1 port = {port}\nexternal: lo\n"
            "clientmethod: none\nsocksmethod: none\nuser.unprivileged: nobody\n"
            "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\nsocks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
        )
        return self._run([need("danted"), "-f", home / "conf"], home, port)

    def nginx(self, pem, extra=""):
        home, port = self._home("nginx"), self._port()
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
        home, port = self._home("apache"), self._port()
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

    def caddy(self, pem):
        home, port = self._home("caddy"), self._port()
        (home / "conf").write_text(
            f"{{\nadmin off\nauto_https off\nstorage file_system {home}\n}}\n"
            f"https://localhost:{port} {{\nbind 127.0.0.1\ntls {pem} {pem}\n"
            'header Content-Type text/html\nrespond "hello from caddy"\n}\n'
        )
        return self._run([need("caddy"), "run", "--config", home / "conf", "--adapter", "caddyfile"], home, port)

    def node(self, pem, keep_alive=5, promises=None):
        """*promises*: what it says that it keeps a connection, where that is not *keep_alive*."""
        told = f"a.setHeader('Connection', 'keep-alive'); a.setHeader('Keep-Alive', 'timeout={promises}');"
        home, port = self._home("node"), self._port()
        (home / "origin.js").write_text(
            "const fs = require('fs'), pem = fs.readFileSync(process.argv[2]);"
            f"const s = require('https').createServer({{key: pem, cert: pem}}, (q, a) => {{{told if promises else ''}"
            "a.end('hello from node')});"
            f"s.keepAliveTimeout = {1000 * keep_alive}; s.listen(+process.argv[3], '127.0.0.1');"
        )
        return self._run([need("node"), home / "origin.js", pem, port], home, port)
