"""A gateway or several, a policy authority and runtime nodes as separate processes on loopback, with mutual TLS and a development CA."""

import asyncio
import json
import multiprocessing
import os
import selectors
import signal
import socket
import subprocess
import time
import urllib.request

from lib import ROOT, die, output

PROGRAM_OF = {"gateway": "operation-gateway", "authority": "policy-authority", "node": "runtime-node"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program_of(name):
    return PROGRAM_OF[name.split("-")[0]]


class Cluster:
    def __init__(self, folder, binaries, n_nodes=5, delay=0, embedded=False, n_gateways=1, **settings):
        """`delay`: seconds by which each message between gateway and nodes is late. `embedded`: one process, as in ./scripts/run.
        `settings`: those of the gateways."""
        self.folder, self.binaries, self.delay = folder, binaries, delay
        self.gateways = ["gateway", *(f"gateway-{index}" for index in range(1, n_gateways))]
        self.nodes = [] if embedded else [f"node-{index}" for index in range(n_nodes)]
        self.authorities = [] if embedded else ["authority"]
        self.ports = {name: free_port() for name in [*self.gateways, *self.authorities, *self.nodes]}
        self.urls = [f"http://127.0.0.1:{self.ports[name]}" for name in self.gateways]
        self.probes = dict(zip(self.gateways, self.urls)) | {
            name: f"http://127.0.0.1:{free_port()}" for name in [*self.authorities, *self.nodes]}
        self.processes = {}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SVC_")}
        self.gateway_settings = {
            "database_url": f"sqlite://{folder}/gateway.db", "log_key": folder / "log.key", "admission_rate": 0,
            "policy_bundle": ROOT / "bundles/payment-guard", "policy_trust_roots": ROOT / "bundles/trust-development.json", **settings}

    def settings(self, name):
        return self.folder / f"{name}.toml"

    def write_settings(self, name, **settings):
        def line(key, value):
            return f"{key} = {json.dumps(value if isinstance(value, (int, bool)) else str(value))}\n"
        self.settings(name).write_text("".join(line(key, value) for key, value in settings.items()))

    def command(self, name, *arguments):
        """What a command of a process's program prints, with the settings of the process."""
        command = [self.binaries / program_of(name), *arguments[:1], "--config", self.settings(name), *arguments[1:]]
        return output(*command, cwd=ROOT, env=self.environment)

    def prepare(self):
        """Keys, certificates, pins and settings of every process."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        signing = self.prepare_signing() if self.nodes else {
            "authority_key": self.folder / "authority.key", "node_directory": self.folder / "nodes"}
        for name in self.gateways:
            self.write_settings(name, bind=f"127.0.0.1:{self.ports[name]}", **self.gateway_settings, **signing)

    def prepare_signing(self):
        """Everything of the authority and the nodes; returns the settings with which gateways find them."""
        pki = self.folder / "pki"
        pki.mkdir(mode=0o700)
        # The gateway resolves names below `localhost` to loopback.
        services = ["operation-gateway", *self.authorities, *self.nodes]
        output(ROOT / "scripts/certificates", pki, 7, *(f"{name}.localhost" for name in services))
        ca = pki / "ca.pem"

        def served(name):
            return {
                "bind": f"127.0.0.1:{self.ports[name]}", "admin_bind": self.probes[name].removeprefix("http://"),
                "tls_certificate": pki / f"{name}.localhost.pem", "tls_key": pki / f"{name}.localhost.key", "tls_client_ca": ca,
                "callers": "operation-gateway.localhost", "signed_approvals": "off", "keys_without_approvals": True,
                "separation_of_duties": False, "permitted_recipients": "*",
                "policy_trust_roots": ROOT / "bundles/trust-development.json", "development_bundles": True}

        self.write_settings("authority", authority_key=self.folder / "authority.key",
                            database=self.folder / "authority-record/authority.db", **served("authority"))
        public = self.command("authority", "init").split()[0]

        peers, identities = self.folder / "peers.json", []
        for index, name in enumerate(self.nodes):
            data, keys = self.folder / name, self.folder / f"{name}-key"
            data.mkdir(mode=0o700)
            keys.mkdir(mode=0o700)
            self.write_settings(name, participant=index, database=data / "node.db", node_key=keys / "node.key", peers_file=peers,
                                authority_keys=public, **served(name))
            identity = self.folder / f"{name}.identity.json"
            identity.write_text(self.command(name, "init"))
            identities.append(identity)
        self.command(self.nodes[0], "pin", *identities)

        def route(name):
            return delaying_proxy(self.ports[name], self.delay) if self.delay else self.ports[name]
        return {
            "runtime_nodes": ",".join(f"https://{name}.localhost:{route(name)}" for name in self.nodes), "runtime_node_pins": peers,
            "authority_url": f"https://authority.localhost:{self.ports['authority']}", "authority_public_key": public,
            "service_tls_certificate": pki / "operation-gateway.localhost.pem", "service_tls_key": pki / "operation-gateway.localhost.key",
            "service_tls_ca": ca}

    def start(self, *names):
        for name in names:
            command = [self.binaries / program_of(name), "--config", self.settings(name)]
            with open(self.folder / f"{name}.log", "ab") as log:
                self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=self.environment)

    def wait(self, *names, probe="/healthz"):
        """Waits until the processes answer the probe."""
        for name in names:
            deadline = time.monotonic() + 30
            while not self.answers(name, probe):
                if self.processes[name].poll() is not None or time.monotonic() > deadline:
                    die(f"{name} did not start:\n{(self.folder / f'{name}.log').read_text()}")
                time.sleep(0.05)

    def answers(self, name, probe):
        try:
            return urllib.request.urlopen(self.probes[name] + probe, timeout=5).status == 200
        except OSError:
            return False

    def start_all(self):
        self.start(*self.authorities, *self.nodes)
        self.wait(*self.authorities, *self.nodes)
        for name in self.gateways:
            self.start(name)
            self.wait(name, probe="/readyz")

    def kill(self, *names):
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def stop_all(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


def delaying_proxy(port, delay):
    """A TCP proxy in front of a port, in a process of its own, that delays what passes through it, in each direction; returns its
    own port. Waits with `select`, since `epoll` would round each delay up to a millisecond."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())

    async def copy(source, sink):
        while piece := await source.read(65536):
            loop.call_later(delay, sink.write, piece)
        loop.call_later(delay, sink.close)

    async def relay(from_client, to_client):
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:  # before the process has started, and after it was stopped
            return to_client.close()
        await asyncio.gather(copy(from_client, to_server), copy(from_server, to_client))

    async def serve():
        async with await asyncio.start_server(relay, sock=listener) as server:
            await server.serve_forever()

    multiprocessing.Process(target=lambda: loop.run_until_complete(serve()), daemon=True).start()
    return listener.getsockname()[1]
