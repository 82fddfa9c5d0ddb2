"""Renders the buffer and QoS templates of every SKU of sonic-buildimage as SONiC does at its first boot.

    render.py GITDIR OUTPUT

GITDIR is a bare git directory. The files of its HEAD are read with `git cat-file --batch`, without a
checkout. The script writes one configuration for each SKU, or for each ASIC of a SKU, to the folder OUTPUT. The file
`index.json` lists the configurations.

The templates read two tables: PORT from port_config.ini, or from platform.json with hwsku.json, and DEVICE_METADATA.
There are no neighbours, so every port is active and every cable has the default length of the template.
"""

import json
import multiprocessing
import os
import posixpath
import re
import subprocess
import sys

import jinja2

BUILD_TEMPLATES = "files/build_templates"
CONFIGURATION = "src/sonic-yang-models/doc/Configuration.md"
SAMPLE = "src/sonic-yang-models/tests/files/sample_config_db.json"
MODELS = {"traditional": "buffers.json.j2", "dynamic": "buffers_dynamic.json.j2"}
# DEVICE_METADATA types by topology. SONiC reads the type from the minigraph.
TYPE_OF_TOPOLOGY = {
    "t0": "ToRRouter",
    "t1": "LeafRouter",
    "t2": "SpineRouter",
    "lt2": "LowerSpineRouter",
    "ft2": "FabricSpineRouter",
}


class Repository:
    """Reads the files of one commit and follows symbolic links of files and folders."""

    def __init__(self, git_dir):
        self.git_dir = git_dir
        self.commit = self._git("rev-parse", "HEAD").decode().strip()
        self.date = self._git("log", "-1", "--format=%cs").decode().strip()
        self.blobs, self.links, self.folders = {}, {}, {"": set()}
        self._cat = subprocess.Popen(
            ["git", "--git-dir", git_dir, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._texts = {}
        for line in self._git("ls-tree", "-r", "-z", "HEAD").split(b"\0"):
            if not line:
                continue
            meta, path = line.split(b"\t", 1)
            mode, kind, blob = meta.decode().split()
            path = path.decode("utf-8", "surrogateescape")
            if kind != "blob":
                continue
            if mode == "120000":
                self.links[path] = blob
            else:
                self.blobs[path] = blob
            while path:
                parent, name = posixpath.split(path)
                seen = parent in self.folders
                self.folders.setdefault(parent, set()).add(name)
                if seen and parent:
                    break
                path = parent

    def _git(self, *arguments):
        return subprocess.run(
            ["git", "--git-dir", self.git_dir, *arguments], check=True, stdout=subprocess.PIPE
        ).stdout

    def _read_blob(self, blob):
        if blob not in self._texts:
            self._cat.stdin.write(blob.encode() + b"\n")
            self._cat.stdin.flush()
            header = self._cat.stdout.readline().split()
            if header[-1] == b"missing":
                self._texts[blob] = None
            else:
                data = self._cat.stdout.read(int(header[2]))
                self._cat.stdout.read(1)
                self._texts[blob] = data.decode("utf-8", "replace")
        return self._texts[blob]

    def resolve(self, path, depth=0):
        """Returns the path without symbolic links. Returns None if the path does not exist or its links form a loop."""
        if depth > 40:
            return None
        done = ""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for position, part in enumerate(parts):
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            if here in self.links:
                target = self._read_blob(self.links[here])
                if target is None or target.startswith("/"):
                    return None
                rest = "/".join(parts[position + 1 :])
                return self.resolve(posixpath.join(done, target.strip(), rest), depth + 1)
            if here not in self.blobs and here not in self.folders:
                return None
            done = here
        return done

    def is_file(self, path):
        return self.resolve(path) in self.blobs

    def is_folder(self, path):
        return self.resolve(path) in self.folders

    def names(self, path):
        real = self.resolve(path)
        return sorted(self.folders.get(real, ())) if real is not None else []

    def read(self, path):
        """Returns the text of a file, or None if the file does not exist or its blob is missing."""
        real = self.resolve(path)
        return self._read_blob(self.blobs[real]) if real in self.blobs else None


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def sort_by_port_index(ports):
    if isinstance(ports, list):
        ports.sort(key=lambda port: int(port[11:]) + 1024 if "BP" in port else int(port[8:]))


def environment(repository, folders):
    """Creates a Jinja2 environment with the additions of sonic-cfggen. It uses the first folder that has a template."""

    def load(name):
        for folder in folders:
            text = repository.read(posixpath.join(folder, name))
            if text is not None:
                return text
        return None

    result = jinja2.Environment(loader=jinja2.FunctionLoader(load), trim_blocks=True)
    result.filters["sort_by_port_index"] = sort_by_port_index
    result.globals["template_exists"] = lambda name: load(name) is not None
    result.globals["is_smartswitch"] = False
    return result


def parse_port_config(text):
    """Parses `port_config.ini`. The comment with the word `name` contains the column titles."""
    ports, titles = {}, ["name", "lanes", "alias", "index"]
    for line in text.splitlines():
        if line.startswith("#"):
            if "name" in line:
                titles = line.strip("#").split()
            continue
        tokens = line.split()
        if len(tokens) < 2:
            continue
        fields = dict(zip(titles, tokens))
        name = fields.pop("name")
        fields.setdefault("alias", name)
        ports[name] = fields
    return ports


def megabits(speed):
    return int(speed[:-1]) * 1000 if speed.endswith("G") else int(speed)


def breakout_entries(mode, lanes):
    """Parses a mode such as `2x25G(2)+1x50G(2)` to one tuple per group: number of ports, speed in Mb/s, total number of lanes."""
    entries = []
    for group in mode.split("+"):
        found = re.match(r"(\d{1,6})x(\d{1,6}G?)(\[[^\]]*\])?(\((\d{1,6})\))?", group)
        if not found:
            raise ValueError(f"breakout mode {mode} cannot be read")
        entries.append((int(found[1]), megabits(found[2]), int(found[5] or lanes)))
    return entries


def ports_of_platform(platform, hwsku):
    """Returns PORT from platform.json and the default breakout modes of hwsku.json."""
    ports = {}
    for name, properties in platform["interfaces"].items():
        if name not in hwsku["interfaces"]:
            continue
        own = hwsku["interfaces"][name]
        lanes, indexes = properties["lanes"].split(","), properties["index"].split(",")
        mode = own["default_brkout_mode"]
        wanted = breakout_entries(mode, len(lanes))
        aliases = next(
            (
                properties["breakout_modes"][known]
                for known in properties["breakout_modes"]
                if breakout_entries(known, len(lanes)) == wanted
            ),
            None,
        )
        if aliases is None:
            raise ValueError(f"{name}: breakout mode {mode} is not in platform.json")
        lane, number, base = 0, 0, int(name.replace("Ethernet", ""))
        for count, speed, used in wanted:
            width = used // count
            for _ in range(count):
                port = {
                    "alias": aliases[number],
                    "lanes": ",".join(lanes[lane : lane + width]),
                    "speed": str(speed),
                    "index": indexes[lane],
                }
                for extra in ("fec", "autoneg", "role"):
                    if extra in own:
                        port[extra] = own[extra]
                ports[f"Ethernet{base + lane}"] = port
                lane, number = lane + width, number + 1
    return ports


def ports_of(repository, platform_path, sku_path, folder):
    """Returns PORT of a SKU or of one of its ASICs, and the name of the source file."""
    platform = repository.read(f"{platform_path}/platform.json")
    refusal = "there is no port_config.ini, and no platform.json with hwsku.json"
    for candidate in (folder, sku_path):
        hwsku = repository.read(f"{candidate}/hwsku.json")
        # SONiC prefers platform.json if it describes interfaces and the SKU has hwsku.json. Some of these pairs
        # contradict each other in the breakout modes. The ports then come from port_config.ini.
        if hwsku and platform:
            try:
                ports = ports_of_platform(json.loads(platform), json.loads(hwsku))
                if ports:
                    return ports, "platform.json"
            except (ValueError, KeyError) as error:
                refusal = str(error)
        text = repository.read(f"{candidate}/port_config.ini")
        if text is not None:
            return parse_port_config(text), "port_config.ini"
    raise ValueError(refusal)


def complete_speeds(ports):
    """Sets missing port speeds to 10 Gb/s per lane, like the SAI of the oldest platforms."""
    for port in ports.values():
        if "speed" not in port and "lanes" in port:
            port["speed"] = str({1: 10000, 2: 20000, 4: 40000, 8: 80000, 10: 100000}.get(port["lanes"].count(",") + 1, 10000))


def data_model(repository, unit, is_voq):
    """Returns the tables that the templates read."""
    folder = unit["path"]
    sku_path = folder if unit["asic"] is None else posixpath.dirname(folder)
    ports, unit["ports_from"] = ports_of(repository, posixpath.dirname(sku_path), sku_path, folder)
    complete_speeds(ports)
    # sonic-cfggen sorts the keys of every table before it renders.
    ports = dict(sorted(ports.items(), key=lambda port: natural(port[0])))
    localhost = {"hwsku": unit["sku"], "platform": unit["platform"], "hostname": "sonic", "buffer_model": unit["model"]}
    if unit["asic"] is not None:
        localhost["asic_name"] = f"asic{unit['asic']}"
    data = {"PORT": ports, "DEVICE_METADATA": {"localhost": localhost}, "asic_type": unit["asic_type"].split("-")[0]}
    if is_voq:
        localhost["switch_type"] = "voq"
        asic = localhost.setdefault("asic_name", "asic0")
        data["SYSTEM_PORT"] = {f"sonic|{asic}|{name}": {"speed": port["speed"]} for name, port in ports.items()}
    return data


def render_template(env, name, data):
    """Renders a template and parses its JSON."""
    try:
        text = env.get_template(name).render(data)
    except (jinja2.exceptions.TemplateError, TypeError, KeyError) as error:
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        near = " ".join(text[max(0, error.pos - 60) : error.pos + 20].split())
        raise ValueError(f"{name} does not give JSON: {error.msg} in `{near}`") from error


def render_topologies(repository, unit, data):
    """Returns the tables of both templates.

    A template usually names its default topology. Other templates need the type of the switch, which SONiC reads from
    the minigraph. They get the type of the first topology for which they have defaults.
    """
    localhost = data["DEVICE_METADATA"]["localhost"]
    env = environment(repository, [BUILD_TEMPLATES, unit["path"]])
    refusal = None
    for topology in [None, *TYPE_OF_TOPOLOGY]:
        if topology is not None:
            if not env.globals["template_exists"](f"buffers_defaults_{topology}.j2"):
                continue
            localhost["type"] = TYPE_OF_TOPOLOGY[topology]
        try:
            config = render_template(env, MODELS[unit["model"]], data)
            unit["qos"] = env.globals["template_exists"]("qos.json.j2")
            if unit["qos"]:
                config.update(render_template(env, "qos.json.j2", data))
            return config
        except ValueError as error:
            refusal = error
    raise refusal


def names_missing_profile(config):
    """Returns whether a queue has a buffer profile that the configuration lacks."""
    profiles = config.get("BUFFER_PROFILE", {})
    return any(entry.get("profile", "NULL") not in (*profiles, "NULL") for entry in config.get("BUFFER_QUEUE", {}).values())


def render(repository, unit):
    """Renders one unit and returns its configuration.

    SONiC reads from the minigraph whether a switch with a Jericho chip uses VOQ keys. This script uses VOQ keys, unless
    the SKU lacks the profiles of the VOQ queues.
    """
    for is_voq in [True, False] if unit["asic_type"] == "broadcom-dnx" else [False]:
        data = data_model(repository, unit, is_voq)
        config = render_topologies(repository, unit, data)
        if not names_missing_profile(config):
            break
    for table in ("DEVICE_METADATA", "PORT", "SYSTEM_PORT"):
        if table in data:
            config[table] = data[table]
    # Defaults of SONiC's configuration generator for a new switch.
    for port in config["PORT"].values():
        port.setdefault("admin_status", "up")
        port.setdefault("mtu", "9100")
    return config


def units(repository):
    """Yields one unit for each buffer model of each device/VENDOR/PLATFORM/SKU[/ASIC] with a buffer template."""
    for vendor in repository.names("device"):
        for platform in repository.names(f"device/{vendor}"):
            path = f"device/{vendor}/{platform}"
            if not repository.is_folder(path):
                continue
            asic_type = (repository.read(f"{path}/platform_asic") or "").strip()
            for sku in repository.names(path):
                folder = f"{path}/{sku}"
                if not repository.is_folder(folder):
                    continue
                asics = [name for name in repository.names(folder) if name.isdigit()]
                for asic in [None, *sorted(asics, key=int)]:
                    place = folder if asic is None else f"{folder}/{asic}"
                    for model, template in MODELS.items():
                        if repository.is_file(f"{place}/{template}"):
                            yield {
                                "path": place,
                                "real": posixpath.dirname(repository.resolve(f"{place}/{template}")),
                                "vendor": vendor,
                                "platform": platform,
                                "sku": sku,
                                "asic": asic,
                                "model": model,
                                "asic_type": asic_type,
                                "qos": False,
                            }


def write_lookup(repository, unit, output, name):
    text = repository.read(f"{unit['path']}/pg_profile_lookup.ini")
    if text is None and unit["asic"] is not None:
        text = repository.read(f"{posixpath.dirname(unit['path'])}/pg_profile_lookup.ini")
    unit["lookup"] = None
    if text is not None:
        unit["lookup"] = f"{name}.ini"
        with open(os.path.join(output, unit["lookup"]), "w", encoding="utf-8") as file:
            file.write(text)


def render_unit(numbered):
    """Renders one unit and writes its files to the output folder. Runs in a worker process."""
    number, unit = numbered
    repository, output = WORKER["repository"], WORKER["output"]
    name = f"{number:04}"
    unit["config"], unit["error"] = None, None
    write_lookup(repository, unit, output, name)
    try:
        config = render(repository, unit)
    except ValueError as error:
        unit["error"] = str(error)
    else:
        unit["config"] = f"{name}.json"
        with open(os.path.join(output, unit["config"]), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
    return unit


WORKER = {}


def start_worker(git_dir, output):
    WORKER.update(repository=Repository(git_dir), output=output)


def main(git_dir, output):
    repository = Repository(git_dir)
    with multiprocessing.Pool(2, start_worker, (git_dir, output)) as pool:
        listed = pool.map(render_unit, list(enumerate(units(repository))), chunksize=8)
    documents = {}
    for name, path in (("configuration", CONFIGURATION), ("sample", SAMPLE)):
        documents[name] = repository.read(path)
    with open(os.path.join(output, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"commit": repository.commit, "date": repository.date, "units": listed, "documents": documents}, file, indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: render.py GITDIR OUTPUT")
    main(sys.argv[1], sys.argv[2])
