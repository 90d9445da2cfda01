"""What the package is made of: the port against its golden files, types, contents, size, the hash of each kernel."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tarfile

import pytest
from web_site import ROOT, WEB, command

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("web")]

MOST_BYTES = 250_000


def test_the_golden_files_are_what_this_tree_makes():
    spec = importlib.util.spec_from_file_location("write_web_golden", ROOT / "tools" / "write_web_golden.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.main(["--check"]) == 0


def test_the_port_under_node(modules, tried):
    command("node", "build.mjs", cwd=WEB)
    files = sorted(map(str, (WEB / "test").glob("*.test.js")))
    said = command("node", "--test", "--test-reporter=tap", *files, cwd=WEB)
    passed = int(said.split("# pass ")[1].split()[0])
    assert passed >= 15 and "# fail 0" in said
    golden = json.loads((WEB / "test" / "golden.json").read_text())
    tried("plans equal to Python's", len(golden["plans"]))


def test_types_are_strict_and_no_error_is_left(modules):
    """`tsc --checkJs` over every module, the runner among them."""
    command("node", "build.mjs", cwd=WEB)
    command(modules / ".bin" / "tsc", "-p", "tsconfig.json", "--noEmit", cwd=WEB)
    assert '"strict": true' in (WEB / "tsconfig.json").read_text()


def test_a_type_error_would_show(modules, tmp_path):
    """A planted one: the declarations that are packed are those that are checked."""
    (tmp_path / "wrong.js").write_text(
        "/** @param {import('./src/msm.js').Msm} msm */\nexport const wrong = (msm) => msm.sum('no scalars');\n"
    )
    (tmp_path / "src").symlink_to(WEB / "src")
    options = ["--noEmit", "--checkJs", "--allowJs", "--strict", "--target", "ES2022", "--module", "ES2022"]
    options += ["--moduleResolution", "bundler", "--typeRoots", str(modules / "@webgpu"), "--types", "types"]
    with pytest.raises(AssertionError, match="not assignable"):
        command(modules / ".bin" / "tsc", *options, "wrong.js", cwd=tmp_path)


def test_the_package_is_small_and_complete(app):
    packed = json.loads((app.parent / "packed.json").read_text())
    names = {one["path"] for one in packed["files"]}
    assert {"package.json", "README.md", "LICENSE", "src/index.js", "types/index.d.ts"} <= names
    assert all(name.startswith(("src/", "types/")) or "/" not in name for name in names)
    assert not any("test" in name for name in names)
    with tarfile.open(app.parent / packed["filename"]) as archive:
        assert sum(member.size for member in archive if member.name.endswith((".js", ".json"))) < MOST_BYTES
    assert packed["unpackedSize"] < MOST_BYTES * 1.5 and packed["size"] < MOST_BYTES
    manifest = json.loads((app / "node_modules" / "@whet" / "msm" / "package.json").read_text())
    assert "dependencies" not in manifest and manifest["license"] == "Apache-2.0"


def test_every_kernel_is_the_very_file_of_the_engine(app):
    """By hash, as a page can ask for them."""
    script = "import('@whet/msm').then((m) => console.log(JSON.stringify([m.SHA256, m.DIGEST])))"
    hashes, digest = json.loads(command("node", "-e", script, cwd=app))
    folder = ROOT / "src" / "whet" / "msm" / "webgpu" / "wgsl"
    files = {str(file.relative_to(folder).with_suffix("")): file for file in folder.rglob("*.wgsl")}
    files["runner.js"] = ROOT / "src" / "whet" / "gpu" / "runner.js"
    assert set(files) - set(hashes) == {"chain", "generated/multiply_wide"}
    assert hashes == {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in hashes}
    listed = "".join(f"{value}  {name}\n" for name, value in hashes.items())
    assert digest == hashlib.sha256(listed.encode()).hexdigest()


def test_versions_are_exact():
    """There is no lock file, so package.json has to name versions, not ranges."""
    manifest = json.loads((WEB / "package.json").read_text())
    assert all(version.replace(".", "").isdigit() for version in manifest["devDependencies"].values())
