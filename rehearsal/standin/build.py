"""Builds the files that the rehearsal's small internet serves: the k3s stand-in and the chart stand-ins."""

import argparse
import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SHEBANG = b"#!/usr/bin/python3\n"
EPOCH = (2026, 1, 1, 0, 0, 0)
MAIN = "import sys\n\nfrom cluster.main import main\n\nsys.exit(main())\n"


def build_k3s(version: str, out: Path) -> Path:
    """One executable zip that says it is that version. The same input gives the same bytes."""
    commit = hashlib.sha256(version.encode()).hexdigest()[:8]
    files = {"__main__.py": MAIN.encode()}
    for path in sorted((HERE / "cluster").rglob("*.py")):
        files[path.relative_to(HERE).as_posix()] = path.read_bytes()
    stamp = f'"""Written by the build."""\n\nVERSION = "{version}"\nCOMMIT = "{commit}"\n'
    files["cluster/_version.py"] = stamp.encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(SHEBANG + content.getvalue())
    out.chmod(0o755)
    return out


def build_chart(version: str, out_dir: Path) -> Path:
    """`hami-VERSION.tgz` as `helm package` lays it out, with the same bytes each time."""
    source = HERE / "charts" / f"hami-{version}"
    if not source.is_dir():
        known = sorted(p.name.removeprefix("hami-") for p in (HERE / "charts").iterdir())
        raise ValueError(f"no chart stand-in for HAMi {version}; there are: {', '.join(known)}")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        paths = [p for p in sorted(source.rglob("*")) if p.is_file()]
        paths.sort(key=lambda p: (p.name != "Chart.yaml" or p.parent != source, str(p)))
        for path in paths:
            entry = tarfile.TarInfo(f"hami/{path.relative_to(source).as_posix()}")
            entry.size, entry.mode, entry.mtime = path.stat().st_size, 0o644, 1767225600
            with path.open("rb") as stream:
                archive.addfile(entry, stream)
    out_dir.mkdir(parents=True, exist_ok=True)
    out = out_dir / f"hami-{version}.tgz"
    with out.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
        packed.write(plain.getvalue())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k3s", metavar="VERSION", help="build that version of the k3s stand-in")
    parser.add_argument("--chart", metavar="VERSION", help="build that version of the HAMi chart stand-in")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the files")
    given = parser.parse_args()
    if given.k3s:
        print(build_k3s(given.k3s, given.out / "k3s"))
    if given.chart:
        print(build_chart(given.chart, given.out))


if __name__ == "__main__":
    main()
