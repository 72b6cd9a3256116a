# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.disk import Disk, File, SystemDisk
from entrepot.testing import Fault, PlannedFaults, SimulatedDisk

SEEDS = 200

Files = dict[str, bytes]


def new_disk() -> SimulatedDisk:
    return SimulatedDisk(Random(1))


def store(disk: Disk, path: str, data: bytes, *, forced: bool = True) -> None:
    file = disk.open(path, create=True)
    file.write(0, [data])
    if forced:
        file.force()
    file.close()


def files(disk: SimulatedDisk) -> Files:
    return {path: disk.contents(path) for path in disk.paths()}


def outcomes(disk: SimulatedDisk) -> list[Files]:
    """Every distinct state that power cuts leave."""
    seen: list[Files] = []
    for seed in range(SEEDS):
        twin = disk.copy(Random(seed))
        twin.power_cut()
        if files(twin) not in seen:
            seen.append(files(twin))
    return seen


def same(left: list[Files], right: list[Files]) -> bool:
    return len(left) == len(right) and all(state in right for state in left)


def test_file_with_data_and_name_forced_is_never_lost() -> None:
    disk = new_disk()
    store(disk, "a", b"one")
    disk.force_folder("")
    assert outcomes(disk) == [{"a": b"one"}]


def test_unforced_write_can_be_lost_and_can_survive() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    disk.open("a").write(0, [b"t", bytearray(b"w"), memoryview(b"o")])
    assert disk.contents("a") == b"two"
    assert same(outcomes(disk), [{"a": b"one"}, {"a": b"two"}])


def test_forced_file_vanishes_when_its_name_was_not_forced() -> None:
    disk = new_disk()
    store(disk, "a", b"one")
    assert same(outcomes(disk), [{}, {"a": b"one"}])


def test_forced_name_does_not_make_data_durable() -> None:
    disk = new_disk()
    store(disk, "a", b"one", forced=False)
    disk.force_folder("")
    assert same(outcomes(disk), [{"a": b""}, {"a": b"\0\0\0"}, {"a": b"one"}])


def test_unforced_names_survive_as_a_prefix() -> None:
    disk = new_disk()
    for name in "abc":
        store(disk, name, b"x")
    disk.remove("a")
    a, b, c = ({name: b"x"} for name in "abc")
    assert same(outcomes(disk), [{}, a, a | b, a | b | c, b | c])


def test_forcing_one_folder_leaves_another_unsafe() -> None:
    disk = new_disk()
    disk.put("p/old", b"")
    disk.put("q/old", b"")
    store(disk, "p/new", b"")
    store(disk, "q/new", b"")
    disk.force_folder("p")
    assert {"p/new" in left for left in outcomes(disk)} == {True}
    assert {"q/new" in left for left in outcomes(disk)} == {True, False}


def test_rename_over_a_file_leaves_the_old_or_the_new_never_neither() -> None:
    disk = new_disk()
    disk.put("target", b"old")
    store(disk, "draft", b"new")
    disk.force_folder("")
    disk.rename("draft", "target")
    assert files(disk) == {"target": b"new"}
    assert same(outcomes(disk), [{"draft": b"new", "target": b"old"}, {"target": b"new"}])
    disk.force_folder("")
    assert outcomes(disk) == [{"target": b"new"}]


def test_rename_of_unforced_data_may_leave_the_target_empty() -> None:
    disk = new_disk()
    disk.put("target", b"old")
    store(disk, "draft", b"new", forced=False)
    disk.rename("draft", "target")
    disk.force_folder("")
    assert {"target": b""} in outcomes(disk)


def test_rename_between_folders_is_one_step() -> None:
    disk = new_disk()
    disk.put("p/a", b"one")
    disk.put("q/b", b"two")
    disk.remove("q/b")
    disk.rename("p/a", "q/a")
    p, q, b = {"p/a": b"one"}, {"q/a": b"one"}, {"q/b": b"two"}
    assert same(outcomes(disk), [p | b, p, q])
    disk.force_folder("p")
    assert outcomes(disk) == [q], "what went before it in the other folder is durable with it"


def test_unforced_remove_may_bring_the_file_back() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    disk.remove("a")
    assert same(outcomes(disk), [{}, {"a": b"one"}])


def test_folder_not_forced_in_the_one_above_vanishes_with_all_in_it() -> None:
    disk = new_disk()
    disk.make_folder("log/old")
    store(disk, "log/old/a", b"one")
    disk.force_folder("log/old")
    disk.force_folder("log")
    assert same(outcomes(disk), [{}, {"log/old/a": b"one"}])
    disk.force_folder(".")
    assert outcomes(disk) == [{"log/old/a": b"one"}]


def test_killed_process_loses_nothing_and_its_writes_stay_unforced() -> None:
    disk = new_disk()
    store(disk, "a", b"one", forced=False)
    disk.kill()
    assert files(disk) == {"a": b"one"}
    assert {} in outcomes(disk)


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.power_cut])
def test_file_of_a_dead_process_is_refused_except_to_close(end: Callable[[SimulatedDisk], None]) -> None:
    disk = new_disk()
    disk.put("a", b"one")
    file = disk.open("a")
    end(disk)
    uses: list[Callable[[], object]] = [
        lambda: file.write(0, [b"x"]),
        lambda: file.read(0, 1),
        file.force,
        lambda: file.truncate(0),
        file.size,
    ]
    for use in uses:
        with pytest.raises(AssertionError, match="opened before"):
            use()
    file.close()
    assert disk.contents("a") == b"one"


def test_closed_file_is_refused() -> None:
    disk = new_disk()
    file = disk.open("a", create=True)
    file.close()
    with pytest.raises(AssertionError, match="closed"):
        file.close()


def test_removed_file_stays_readable_to_who_has_it_open() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    file = disk.open("a")
    disk.remove("a")
    assert file.read(0, 10) == b"one"


def test_fault_raises_before_the_operation_is_done() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    disk.faults = PlannedFaults(Fault(1, errno.EIO, frozenset({"remove"})))
    with pytest.raises(OSError, match="Input/output") as caught:
        disk.remove("a")
    assert caught.value.errno == errno.EIO
    assert disk.exists("a")


def test_each_operation_asks_the_faults() -> None:
    asked: list[tuple[str, str, int]] = []

    class Recorder:
        def before(self, operation: str, path: str, size: int) -> None:
            asked.append((operation, path, size))

    disk = new_disk()
    disk.faults = Recorder()
    disk.make_folder("p")
    file = disk.open("p/a", create=True)
    file.write(5, [b"xy", b"z"])
    file.read(0, 4)
    file.force()
    file.truncate(1)
    disk.rename("p/a", "p/b")
    disk.force_folder("p")
    disk.open("p/b", create=True)
    disk.remove("p/b")
    assert asked == [
        ("make_folder", "p", 0),
        ("create", "p/a", 0),
        ("write", "p/a", 3),
        ("read", "p/a", 4),
        ("force", "p/a", 0),
        ("truncate", "p/a", 1),
        ("rename", "p/a", 0),
        ("force_folder", "p", 0),
        ("open", "p/b", 0),
        ("remove", "p/b", 0),
    ]
    assert disk.operations == len(asked)


def test_write_on_a_full_disk_does_a_part_and_raises() -> None:
    disk = new_disk()
    file = disk.open("a", create=True)
    disk.faults = PlannedFaults(Fault(1, None, frozenset({"write"}), part=0.5))
    with pytest.raises(OSError, match="No space"):
        file.write(0, [b"123", b"456"])
    assert disk.contents("a") == b"123"


def test_power_cut_from_within_a_fault_stops_the_operation() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    file = disk.open("a")

    class Cutter:
        def before(self, operation: str, path: str, size: int) -> None:
            disk.power_cut()

    disk.faults = Cutter()
    with pytest.raises(AssertionError, match="died"):
        file.write(0, [b"two"])
    assert disk.contents("a") == b"one"


def test_failed_force_loses_data_although_the_next_force_succeeds() -> None:
    disk = new_disk()
    disk.put("a", b"one")
    file = disk.open("a")
    file.write(0, [b"two"])
    disk.faults = PlannedFaults(Fault(1, errno.EIO, frozenset({"force"})))
    with pytest.raises(OSError, match="Input/output"):
        file.force()
    file.force()
    assert file.read(0, 3) == b"two"
    assert outcomes(disk) == [{"a": b"one"}]


def test_flipped_bit_is_on_the_medium() -> None:
    disk = new_disk()
    disk.put("a", b"\0\0")
    disk.flip_bit("a", 1, 3)
    assert outcomes(disk) == [{"a": b"\0\x08"}]


def test_put_replaces_a_file_and_leaves_nothing_unforced() -> None:
    disk = new_disk()
    store(disk, "a", b"long and unforced", forced=False)
    disk.put("a", b"one")
    disk.put("p/q/b", b"two")
    assert outcomes(disk) == [{"a": b"one", "p/q/b": b"two"}]


def test_copy_goes_its_own_way() -> None:
    disk = new_disk()
    disk.put("p/a", b"one")
    store(disk, "p/b", b"x", forced=False)
    twin = disk.copy()
    twin.open("p/a").write(0, [b"two"])
    twin.remove("p/b")
    assert files(disk) == {"p/a": b"one", "p/b": b"x"}


def test_copy_without_luck_of_its_own_meets_the_same_end() -> None:
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        for name in "abcdef":
            store(disk, name, bytes(2000), forced=False)
        twin = disk.copy()
        disk.power_cut()
        twin.power_cut()
        assert files(disk) == files(twin)
        assert disk.trace_hash == twin.trace_hash


def run(seed: int, last: bytes = b"z") -> tuple[str, int, Files]:
    random = Random(seed)
    disk = SimulatedDisk(random)
    for step in range(200):
        file = disk.open(f"f{random.randrange(5)}", create=True)
        file.write(random.randrange(5000), [random.randbytes(random.randrange(1, 900))])
        if random.random() < 0.2:
            file.force()
        if random.random() < 0.1:
            disk.force_folder("")
        if step % 50 == 49:
            disk.power_cut()
    disk.open("last", create=True).write(0, [last])
    return disk.trace_hash, disk.operations, files(disk)


def test_same_seed_gives_the_same_trace_and_the_same_files() -> None:
    assert run(3) == run(3)


def test_different_seed_or_bytes_give_another_trace() -> None:
    assert run(3)[0] != run(4)[0]
    assert run(3)[0] != run(3, b"y")[0]


def test_path_out_of_the_disk_is_refused() -> None:
    for path in ("/etc/passwd", "a/../../b"):
        with pytest.raises(AssertionError, match="leads out"):
            new_disk().exists(path)


places = st.sampled_from(["a", "b", "p/a", "p/b", "q", "q/a", "missing/a", "p", ""])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), places, st.integers(0, 40), st.binary(max_size=30)),
        st.tuples(st.just("truncate"), places, st.integers(0, 60), st.just(b"")),
        st.tuples(
            st.sampled_from(["open", "remove", "names", "make_folder", "force_folder"]),
            places,
            st.just(0),
            st.just(b""),
        ),
        st.tuples(st.just("rename"), places, st.integers(0, 4), st.just(b"")),
    ),
    max_size=25,
)


def act(disk: Disk, verb: str, path: str, number: int, data: bytes) -> object:
    """One step, and what a caller sees of it; the kind of error when it fails."""

    def with_file(create: bool, use: Callable[[File], None]) -> object:
        file = disk.open(path, create=create)
        use(file)
        seen = file.size(), file.read(0, 100)
        file.close()
        return seen

    try:
        match verb:
            case "write":
                return with_file(True, lambda file: file.write(number, [data]))
            case "truncate":
                return with_file(False, lambda file: file.truncate(number))
            case "open":
                return with_file(False, lambda file: file.force())
            case "names":
                return disk.exists(path), disk.names(path)
            case "rename":
                disk.rename(path, ["a", "p/b", "q", "missing/b", "q/a"][number])
            case _:
                getattr(disk, verb)(path)
    except OSError as error:
        return type(error)
    return None


@given(steps)
def test_simulated_disk_answers_as_the_system_does(steps: list[tuple[str, str, int, bytes]]) -> None:
    simulated = new_disk()
    with tempfile.TemporaryDirectory() as root:
        system = SystemDisk(root)
        for disk in (simulated, system):
            disk.make_folder("p")
        for verb, path, number, data in steps:
            # The simulated disk renames files only.
            if verb == "rename" and path in simulated_folders(simulated):
                continue
            assert act(simulated, verb, path, number, data) == act(system, verb, path, number, data)


def simulated_folders(disk: SimulatedDisk) -> list[str]:
    return ["", *(path for path in ("p", "q") if disk.exists(path) and path not in disk.paths())]
