"""Attacks on the confinement. Each test fails if the attack succeeds."""

from __future__ import annotations

import pytest

from tests.sandbox.scripted import Runner

pytestmark = pytest.mark.docker


def test_the_agent_gains_no_privileges(attack: Runner) -> None:
    result = attack(
        "id -u; grep -E 'CapEff|CapPrm|CapAmb' /proc/self/status | tr -d '0\\t\\n'; echo; "
        "{ su -c id; sudo id; mount -o remount,rw /home/data; umount /home/data; mount -t tmpfs x /mnt; "
        "unshare -Ur true && echo namespace; chroot / true && echo chroot; "
        "cp /bin/bash /tmp/bash && chmod u+s /tmp/bash; setpriv --reuid 0 true && echo root; "
        "head -c 1 /dev/mem && echo memory; mknod /tmp/disk b 254 0 && echo device; "
        "cat /proc/1/environ && echo environ; head -c 1 /proc/1/mem && echo trace; "
        "chown root /tmp/bash && echo chown; date -s 2000-01-01 > /tmp/x && echo clock; "
        "ls /var/run/docker.sock /run/docker.sock /run/containerd && echo engine; } 2>/dev/null"
    )
    uid, capabilities, *gained = result.log.split()
    assert uid != "0"
    assert capabilities == "CapPrm:CapEff:CapAmb:"
    assert not gained


def test_files_of_the_image_owned_by_root_cannot_be_changed(attack: Runner) -> None:
    result = attack("{ cat /etc/shadow && echo shadow; echo x >> /etc/passwd && echo passwd; } 2>/dev/null; true")
    assert result.log == ""


def test_public_data_cannot_be_changed(attack: Runner) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in attack.public.rglob("*") if path.is_file()}
    attack(
        "cd /home/data; chmod -R 777 . ; chown -R nonroot .; touch *; rm -rf *; echo x > description.md; "
        "mv /home/data /home/old; ln -sf /etc/passwd description.md; mount -o remount,rw /home/data; "
        'python3 -c \'open("/home/data/description.md", "r+b").write(b"x")\''
    )
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in attack.public.rglob("*") if path.is_file()}
    assert after == before
