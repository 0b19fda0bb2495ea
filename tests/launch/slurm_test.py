#!/usr/bin/env python3
"""The batch script of docs/launch.md on a SLURM cluster of two nodes on this machine, from Debian's packages.

CONVOY is the program. Needs root, for the nodes' host names; exits with 77 where that or SLURM is missing.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONVOY = pathlib.Path(os.environ.get("CONVOY", ROOT / "build/bin/convoy"))
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue", "unshare", "ip")
CONTROLLER = "10.77.0.254"
NODES = {"n1": "10.77.0.1", "n2": "10.77.0.2"}
SKIPPED = 77


class Cluster:
    """SLURM's servers; all that they write lies in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = []
        # A rank that has a node for itself would compute with all of its cores, and add up in another order.
        os.environ["OMP_NUM_THREADS"] = "1"
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"), PATH=f"{CONVOY.parent}:{os.environ['PATH']}")

    def start(self):
        folder = self.folder
        folder.chmod(0o755)  # munge asks for it
        for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (folder / name).mkdir(mode=0o755)
        key = folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        hosts = {"localhost": "127.0.0.1", socket.gethostname(): CONTROLLER, **NODES}
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in hosts.items()))
        (folder / "slurm.conf").write_text(self.config())
        munge = {"key-file": key, **{f"{name}-file": folder / f"munge/{name}" for name in ("pid", "log", "seed")}}
        self.serve("munged", "--foreground", "--force", f"--socket={folder}/munge/socket", *(f"--{k}={v}" for k, v in munge.items()))
        self.serve("slurmctld", "-D")
        for command in ("link set lo up", "link add nodes type bridge", f"address add {CONTROLLER}/24 dev nodes", "link set nodes up"):
            self.network(command)
        for node, address in NODES.items():
            self.serve_node(node, address)
        deadline = time.monotonic() + 60
        while self.ask("sinfo", "--noheader", "--states", "idle", "--format", "%D").strip() != str(len(NODES)):
            if time.monotonic() > deadline:
                raise AssertionError("the nodes did not come up: " + self.logs())
            time.sleep(0.2)

    def config(self):
        lines = [
            "ClusterName=test", f"SlurmctldHost={socket.gethostname()}({CONTROLLER})", "SlurmUser=root",
            "AuthType=auth/munge", f"AuthInfo=socket={self.folder}/munge/socket", f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool-%n", f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
            "ReturnToService=2", "SchedulerParameters=batch_sched_delay=0,sched_interval=1", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU", "MailProg=/bin/true"
        ]
        lines += [f"NodeName={node} NodeAddr={address} CPUs=2 State=UNKNOWN" for node, address in NODES.items()]
        lines += ["PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
        return "\n".join(lines) + "\n"

    def serve(self, *command, **more):
        with open(self.folder / f"{len(self.servers)}-{command[0]}.log", "wb") as log:
            self.servers.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, **more))
        return self.servers[-1]

    def serve_node(self, node, address):
        """Starts a node with a host name and a network of its own."""
        script = f"""read connected && hostname {node} && mount --bind {self.folder}/hosts /etc/hosts && ip link set lo up &&
            ip address add {address}/24 dev eth0 && ip link set eth0 up && exec slurmd -D -N {node}"""
        server = self.serve("unshare", "--uts", "--mount", "--net", "sh", "-c", script, stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{server.pid}/ns/net") == own:
            time.sleep(0.01)
        self.network(f"link add {node} type veth peer name eth0 netns {server.pid}")
        self.network(f"link set {node} master nodes up")
        with server.stdin as told:
            told.write(b"connected\n")

    @staticmethod
    def network(command):
        subprocess.run(["ip", *command.split()], check=True)

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True).stdout

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in sorted(self.folder.glob("*.log")))

    def stop(self):
        for server in reversed(self.servers):
            server.terminate()
        for server in self.servers:
            server.wait(30)


def script(ranks):
    """The docs' batch script, with this many ranks a node and no GPUs."""
    text = (ROOT / "docs/launch.md").read_text()
    begin = text.index("#!/bin/bash\n#SBATCH")
    lines = text[begin:text.index("```", begin)].splitlines()
    lines = [line for line in lines if "--gpus-per-node" not in line]
    return "\n".join(lines).replace("-n 4", f"-n {ranks}") + "\n"


class BatchScript(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy_slurm_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.cluster = Cluster(cls.folder)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.convoy("data", "synthetic", "--output", "sessions", "--rows", "400", "--items", "50")
        (cls.folder / "job.sh").write_text(script(ranks=1))

    @classmethod
    def convoy(cls, *arguments):
        done = subprocess.run([CONVOY, *arguments], cwd=cls.folder, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def setUp(self):
        self.addCleanup(shutil.rmtree, self.folder / "runs", ignore_errors=True)

    def config(self, out, steps):
        options = ["train", "--data.path", "sessions", "--d_model", "16", "--n_layer", "1", "--n_head", "2", "--max_steps", str(steps),
                   "--per_device_train_batch_size", "8", "--save_steps", str(steps), "--output_dir", out]
        text = subprocess.run([CONVOY, *options, "--print-config"], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        (self.folder / "run.toml").write_text(text)

    def submit(self):
        """Starts the job; returns its number."""
        done = self.cluster.ask("sbatch", "--parsable", "--output", "job-%j.out", "job.sh")
        self.assertTrue(done.strip().isdigit(), done + self.cluster.logs())
        return done.strip()

    def output(self, job):
        file = self.folder / f"job-{job}.out"
        return file.read_text() if file.exists() else ""

    def wait_until(self, job, condition, what):
        deadline = time.monotonic() + 120
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not {what} after 120 s: {self.output(job)}")
            time.sleep(0.1)

    def wait_for_end(self, job):
        self.wait_until(job, lambda: not self.cluster.ask("squeue", "--noheader", "--jobs", job).strip(), "over")

    def test_trains_on_both_nodes_with_the_numbers_of_one_host(self):
        self.config("runs/first", 20)
        job = self.submit()
        self.wait_for_end(job)
        model = self.folder / "runs/first/model.safetensors"
        self.assertTrue(model.exists(), self.output(job))
        self.config("runs/here", 20)
        self.convoy("train", "run.toml", "--nproc", "2")
        self.assertEqual(model.read_bytes(), (self.folder / "runs/here/model.safetensors").read_bytes())

    def test_goes_on_in_the_next_job_after_the_notice(self):
        steps = 1500
        self.config("runs/first", steps)
        job = self.submit()
        log = self.folder / "runs/first/log.jsonl"
        self.wait_until(job, lambda: log.exists() and '"start"' in log.read_text() and "step" in self.output(job), "training")
        time.sleep(1)
        self.cluster.ask("scancel", "--signal", "USR1", job)
        self.wait_for_end(job)
        self.assertIn("stopped by SIGUSR1", self.output(job))
        self.assertTrue(list(self.folder.glob("runs/first/checkpoint-*")), self.output(job))
        again = self.submit()
        self.wait_for_end(again)
        model = self.folder / "runs/first/model.safetensors"
        self.assertTrue(model.exists(), self.output(again))
        self.config("runs/here", steps)
        self.convoy("train", "run.toml", "--nproc", "2")
        self.assertEqual(model.read_bytes(), (self.folder / "runs/here/model.safetensors").read_bytes())


if __name__ == "__main__":
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing or os.geteuid() != 0:
        print("skipped: needs root" if not missing else f"skipped: {', '.join(missing)} not installed")
        sys.exit(SKIPPED)
    if "--inside" not in sys.argv:  # a network of its own
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, __file__, "--inside", *sys.argv[1:]])
    sys.argv.remove("--inside")
    unittest.main()
