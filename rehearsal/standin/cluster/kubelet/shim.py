#!/usr/bin/python3
"""Holds one container: builds its file system in an own mount namespace, runs its process, keeps its log and exit code.

Lives apart from k3s, so that containers survive a restart of the service. Needs nothing but Python's own library.
Usage: containerd-shim-runc-v2 -namespace k8s.io -id ID -address FOLDER   (FOLDER holds config.json)
"""

import ctypes
import datetime
import json
import os
import selectors
import signal
import subprocess
import sys

NEWNS, NEWUTS, NEWIPC, NEWPID = 0x00020000, 0x04000000, 0x08000000, 0x20000000
READONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def check(code, what):
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind="", flags=0, data=""):
    check(
        LIBC.mount(
            source.encode(),
            target.encode(),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        ),
        f"mount {source} on {target}",
    )


def bind(source, target, readonly=False):
    if not os.path.exists(source):
        raise OSError(
            2, f'error mounting "{source}" to rootfs at "{target}": stat {source}: no such file or directory'
        )
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
    mount(source, target, "", BIND | RECURSIVE)
    if readonly:
        mount("none", target, "", BIND | REMOUNT | READONLY)


def build_rootfs(config, folder):
    work = f"{folder}/fs"
    os.makedirs(work, exist_ok=True)
    mount("tmpfs", work, "tmpfs", 0, "size=1g,mode=755")
    for part in ("upper", "work", "rootfs"):
        os.mkdir(f"{work}/{part}")
    root = f"{work}/rootfs"
    lower = os.path.realpath(config["image"])
    mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={work}/upper,workdir={work}/work")
    for part in ("proc", "sys", "dev", "tmp", "run", "etc"):
        os.makedirs(f"{root}/{part}", exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)
    mount("tmpfs", f"{root}/run", "tmpfs", 0, "mode=755")
    mount("tmpfs", f"{root}/dev", "tmpfs", 0, "mode=755,size=64k")
    for name in DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}")
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
    ):
        os.symlink(target, f"{root}/dev/{name}")
    os.symlink("/proc/self/fd/2", f"{root}/dev/stderr")
    os.mkdir(f"{root}/dev/shm")
    mount("tmpfs", f"{root}/dev/shm", "tmpfs", 0, "mode=1777,size=64m")
    bind("/sys", f"{root}/sys")
    for path, text in config["files"].items():
        target = root + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(target) or os.path.exists(target):
            os.unlink(target)
        with open(target, "w") as stream:
            stream.write(text)
    for path, goal in config["links"].items():
        if not os.path.lexists(root + path):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.symlink(goal, root + path)
    return root


def inject(config, root):
    """The nvidia runtime's part: driver files and devices, as the container's environment asks."""
    if not config["runtime"]:
        return
    done = subprocess.run(
        [config["runtime"], "rehearsal-inject", root],
        env=config["env"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(1, f"nvidia-container-runtime: {done.stderr.strip() or done.stdout.strip()}")


def start(config, root, ends):
    """In the child: enter the container and become its process."""
    for number, end in enumerate(ends, 1):
        os.dup2(end, number)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.setsid()
    for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.chroot(root)
    os.chdir("/")
    mount("proc", "/proc", "proc")
    os.makedirs(config["cwd"], exist_ok=True)
    os.chdir(config["cwd"])
    os.execvpe(config["argv"][0], config["argv"], config["env"])


def run(config, folder, log):
    LIBC.sethostname(config["hostname"].encode(), len(config["hostname"]))
    root = build_rootfs(config, folder)
    for source, target, readonly in config["binds"]:
        bind(source, root + target, readonly)
    inject(config, root)
    out, err, report = os.pipe(), os.pipe(), os.pipe()
    check(LIBC.unshare(NEWPID), "unshare")
    child = os.fork()
    if child == 0:
        try:
            os.close(report[0])
            os.set_inheritable(report[1], False)
            start(config, root, (out[1], err[1]))
        except FileNotFoundError:
            text = f'exec: "{config["argv"][0]}": executable file not found in $PATH'
            os.write(report[1], text.encode())
        except OSError as problem:
            os.write(report[1], f'exec: "{config["argv"][0]}": {problem.strerror or problem}'.encode())
        os._exit(127)
    for end in (out[1], err[1], report[1]):
        os.close(end)
    trouble = b""
    while piece := os.read(report[0], 4096):
        trouble += piece
    if trouble:
        os.waitpid(child, 0)
        raise OSError(
            0, f"unable to start container process: error during container init: {trouble.decode()}"
        )
    put(folder, "pid", str(child))
    copy(log, {out[0]: "stdout", err[0]: "stderr"})
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def copy(log, pipes):
    """Lines into the log, in the CRI form: time, stream, F (whole line) or P (part), text."""
    chooser = selectors.DefaultSelector()
    rest = {}
    for pipe, name in pipes.items():
        chooser.register(pipe, selectors.EVENT_READ, name)
        rest[pipe] = b""
    while chooser.get_map():
        for key, _ in chooser.select():
            piece = os.read(key.fd, 65536)
            lines = (rest[key.fd] + piece).split(b"\n")
            rest[key.fd] = lines.pop()
            for line in lines:
                write(log, key.data, b"F", line)
            if not piece:
                if rest[key.fd]:
                    write(log, key.data, b"P", rest[key.fd])
                chooser.unregister(key.fd)


def write(log, stream, tag, text):
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    os.write(log, f"{now} {stream} ".encode() + tag + b" " + text + b"\n")


def put(folder, name, text):
    with open(f"{folder}/{name}.new", "w") as stream:
        stream.write(text)
    os.replace(f"{folder}/{name}.new", f"{folder}/{name}")


def main():
    folder = sys.argv[sys.argv.index("-address") + 1]
    with open(f"{folder}/config.json") as stream:
        config = json.load(stream)
    os.makedirs(os.path.dirname(config["log"]), exist_ok=True)
    log = os.open(config["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        check(LIBC.unshare(NEWNS | NEWUTS | NEWIPC), "unshare")
        mount("none", "/", "", RECURSIVE | PRIVATE)
        code = run(config, folder, log)
        result = {"code": code if code >= 0 else 128 - code}
    except OSError as problem:
        result = {"code": 128, "error": problem.strerror or str(problem)}
    result["finished"] = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    put(folder, "exit.json", json.dumps(result))


if __name__ == "__main__":
    main()
