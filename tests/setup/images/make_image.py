#!/usr/bin/env python3
"""Makes an OCI image archive with one layer from local files, byte for byte the same each time.

`ctr -n k8s.io images import` reads it; no registry and no container engine is involved.
"""

import argparse
import hashlib
import io
import json
import os
import subprocess
import tarfile

MEDIA = "application/vnd.oci.image."


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ref", required=True, help="name of the image, as in rig/pause:1")
    parser.add_argument("--out", required=True)
    parser.add_argument("--file", action="append", default=[], metavar="SOURCE=DESTINATION")
    parser.add_argument("--busybox-links", action="store_true", help="one link in /bin for each applet of /bin/busybox")
    parser.add_argument("--entrypoint", action="append")
    parser.add_argument("--command", action="append")
    return parser.parse_args()


class Archive:
    """A tar whose members depend on their content only: no owner, no time."""

    def __init__(self):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.buffer, mode="w", format=tarfile.USTAR_FORMAT)

    def folder(self, name, mode=0o755):
        self._add(name, mode, tarfile.DIRTYPE)

    def file(self, name, data, mode=0o644):
        self._add(name, mode, tarfile.REGTYPE, data)

    def link(self, name, target):
        self._add(name, 0o777, tarfile.SYMTYPE, target=target)

    def _add(self, name, mode, kind, data=b"", target=""):
        member = tarfile.TarInfo(name)
        member.mode, member.type, member.linkname, member.size = mode, kind, target, len(data)
        self.tar.addfile(member, io.BytesIO(data))

    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()


def layer(args):
    tree = Archive()
    for name in ("bin", "etc", "root", "www"):
        tree.folder(name)
    tree.folder("tmp", 0o1777)
    tree.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    tree.file("etc/group", b"root:x:0:\n")
    tree.file("www/index.html", b"ok\n")  # for `httpd -h /www`
    for pair in args.file:
        source, destination = pair.split("=", 1)
        with open(source, "rb") as content:
            tree.file(destination.lstrip("/"), content.read(), 0o755)
        if args.busybox_links:
            applets = subprocess.run([os.path.abspath(source), "--list"], check=True, capture_output=True, text=True)
            for applet in sorted(set(applets.stdout.split()) - {"busybox"}):
                tree.link(f"bin/{applet}", "busybox")
    return tree.bytes()


def main():
    args = arguments()
    image = Archive()
    image.file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        image.file(f"blobs/sha256/{digest}", data)
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def document(content):
        return json.dumps(content, sort_keys=True).encode()

    tree = blob("layer.v1.tar", layer(args))
    platform = {"architecture": "amd64", "os": "linux"}
    run = {"Env": ["PATH=/bin"], "WorkingDir": "/"}
    if args.entrypoint:
        run["Entrypoint"] = args.entrypoint
    if args.command:
        run["Cmd"] = args.command
    config = blob("config.v1+json", document(
        {**platform, "config": run, "rootfs": {"type": "layers", "diff_ids": [tree["digest"]]}}))
    manifest = blob("manifest.v1+json", document(
        {"schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": config, "layers": [tree]}))
    manifest["platform"] = platform
    manifest["annotations"] = {
        "io.containerd.image.name": args.ref,
        "org.opencontainers.image.ref.name": args.ref.rpartition(":")[2],
    }
    image.file("index.json", document({"schemaVersion": 2, "manifests": [manifest]}))
    with open(args.out, "wb") as out:
        out.write(image.bytes())


if __name__ == "__main__":
    main()
