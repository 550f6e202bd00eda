"""A real Slurm of two nodes on this one machine, to try the profile on.

`with Cluster(folder): ...` needs root and the programs of the packages slurm-wlm and munge. Its
daemons are plain processes; everything lies in the folder but the three configuration files, which
jobs look for in /etc/slurm and nowhere else. A machine that has a slurm.conf already is left
alone.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil
from ports import free_port

ETC = Path("/etc/slurm")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
# Debian puts the daemons where users' PATH does not lead.
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
# A node with two pretended graphics cards, and one without any.
NODES = {"n1": "CPUs=2 RealMemory=8000 Gres=gpu:2", "n2": "CPUs=1 RealMemory=8000"}

SLURM_CONF = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
# No cgroups: a container may not make any.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
OverTimeLimit=0
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP
"""
NODE_LINE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {equipment}"
GRES_CONF = "NodeName=n1 Name=gpu File={folder}/gpu[0-1]\n"
CGROUP_CONF = "CgroupAutomount=no\n"


def missing() -> str:
    """Return what this machine lacks for a cluster; empty where it can have one."""
    if os.geteuid() != 0:
        return "the daemons of Slurm want root"
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return f"{ETC / 'slurm.conf'} exists" if (ETC / "slurm.conf").exists() else ""


class Cluster:
    """munged, slurmctld and a slurmd per node, up inside a `with` block.

    Attributes:
        folder: Keys, states, spools and logs; short, since it holds a socket. Its name is the
            cluster's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._written: list[Path] = []

    def __enter__(self) -> Self:
        if lack := missing():
            raise RuntimeError(f"no cluster here: {lack}")
        try:
            self._configure()
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        call("scancel", "--user=root")
        self._stop()

    def _configure(self) -> None:
        """Write the configuration, a key, and the devices that stand for graphics cards."""
        host, port = socket.gethostname(), free_port()
        lines = [
            NODE_LINE.format(name=name, host=host, port=free_port(), equipment=equipment)
            for name, equipment in NODES.items()
        ]
        places = {"folder": self.folder, "cluster": self.folder.name, "host": host, "port": port}
        self._write("slurm.conf", SLURM_CONF.format(**places, nodes="\n".join(lines)))
        self._write("gres.conf", GRES_CONF.format(**places))
        self._write("cgroup.conf", CGROUP_CONF)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        for number in range(2):
            os.mknod(self.folder / f"gpu{number}", 0o20666, os.makedev(1, 3))  # as /dev/null

    def _write(self, name: str, text: str) -> None:
        path = ETC / name
        with path.open("x", encoding="utf-8") as handle:  # never over another's
            self._written.append(path)
            handle.write(text)

    def _start(self) -> None:
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "log", "pid")]
        files += [f"--seed-file={self.folder}/munge.seed", f"--socket={self.folder}/munge.socket"]
        self._daemon("munged", "--foreground", "--force", *files)
        self._wait_for((self.folder / "munge.socket").exists)
        self._daemon("slurmctld", "-D")
        for name in NODES:
            self._daemon("slurmd", "-D", "-N", name)
        self._wait_for(lambda: node_states() == {"idle"})

    def _daemon(self, *command: str) -> None:
        with (self.folder / f"daemon{len(self._daemons)}.log").open("wb") as handle:
            process = subprocess.Popen(
                command,
                env=os.environ | {"PATH": PATH},
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(process)

    def _wait_for(self, ready: Callable[[], bool]) -> None:
        for _ in range(300):
            if ready():
                return
            if any(process.poll() is not None for process in self._daemons):
                break
            time.sleep(0.2)
        logs = (path.read_text() for path in sorted(self.folder.glob("daemon*.log")))
        raise RuntimeError("\n".join(["Slurm does not start", *logs]))

    def _stop(self) -> None:
        """End the daemons, the nodes' first, and remove what was written outside the folder."""
        for process in reversed(self._daemons):
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        for path in self._written:
            path.unlink()
        for process in psutil.process_iter():
            if self._is_left_over(process):
                process.kill()

    def _is_left_over(self, process: psutil.Process) -> bool:
        """Without cgroups, what a cancelled job started may outlive it."""
        try:
            return process.environ().get("SLURM_CLUSTER_NAME") == self.folder.name
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


def call(*command: str) -> str:
    """Carry out one of Slurm's commands; return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def node_states() -> set[str]:
    """States of the nodes; none while nobody answers."""
    command = ["sinfo", "--noheader", "--Node", "--format=%T"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return set(done.stdout.split())
