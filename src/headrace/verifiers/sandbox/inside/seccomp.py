"""The system-call filter of a program under test: one process, no network, no hands on other processes.

A classic BPF program for ``seccomp`` (linux/seccomp.h, linux/filter.h). A program that tries to start a process or to
lay hands on one is ended by SIGSYS (no honest solution of a task does); what else is refused fails with EPERM, which it
sees as an ``OSError``. Calls of another architecture end it. Threads are allowed.
"""

from __future__ import annotations

import ctypes
import os

from .libc import LIBC, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, checked, prctl

_ARCH = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the table, AUDIT_ARCH_...
_X32 = 0x40000000
_NEWEST = 462  # calls that came after this table was made do not exist here
_CLONE_THREAD = 0x10000

# Name -> number on x86_64 and aarch64: a program that makes one of these calls is ended.
_FATAL: dict[str, tuple[int | None, int | None]] = {
    # no other process, and no other program in place of this one
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    # no hands on other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
}
# These fail.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "pidfd_open": (434, 434),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # no network (socketpair stays, event loops need it)
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # no memory or messages that outlive a process or escape its limits
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # no other view of the machine
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # no other identity
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setregid": (114, 143),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setgroups": (116, 159),
    "setfsuid": (122, 151),
    "setfsgid": (123, 152),
    "capset": (126, 91),
    "personality": (135, 92),
    # nothing of the kernel's administration, nor calls known for their holes
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "uselib": (134, None),
}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)
# Call -> (number, argument that is looked at, its refused values).
_REFUSED_VALUES: dict[str, tuple[tuple[int, int], int, tuple[int, ...]]] = {
    "fcntl": ((72, 25), 1, (8, 10, 15)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX: they send signals by detour
    "ioctl": ((16, 29), 1, (0x8901, 0x8902, 0x5412, 0x541C)),  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX
    "prctl": ((157, 167), 0, (1, 4, 36, 0x59616D61)),  # PDEATHSIG, DUMPABLE, CHILD_SUBREAPER, PTRACER
}

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def program(machine: str, pid: int) -> list[Instruction]:
    """The filter for a process ``pid`` on ``machine`` ('x86_64', 'aarch64'). Raises ``OSError`` for another one."""
    if machine not in _ARCH:
        raise OSError(f"there is no system-call filter for {machine}; there are: {', '.join(_ARCH)}")
    column, arch = _ARCH[machine]
    code: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), _end()]
    code += [(_LOAD, 0, 0, 0), (_GREATER, 0, 1, _X32 - 1), _end()]
    code += [(_GREATER, 0, 1, _NEWEST), (_RETURN, 0, 0, _ENOSYS)]
    code += _if_call(_CLONE3[column], [(_RETURN, 0, 0, _ENOSYS)])  # libc then takes clone, whose flags can be seen
    code += _if_call(_CLONE[column], [_argument(0), (_ANY_BIT, 1, 0, _CLONE_THREAD), _end(), _allow()])
    own = [_argument(0), (_EQUAL, 1, 0, pid), _end(), _allow()]
    for numbers in (_KILL, _TGKILL):
        code += _if_call(numbers[column], own)
    own_or_zero = [_argument(0), (_EQUAL, 2, 0, pid), (_EQUAL, 1, 0, 0), _refuse(), _allow()]
    code += _if_call(_PRLIMIT[column], own_or_zero)
    for numbers, argument, values in _REFUSED_VALUES.values():
        tests = [part for value in values for part in ((_EQUAL, 0, 1, value), _refuse())]
        code += _if_call(numbers[column], [_argument(argument), *tests, _allow()])
    for table, result in ((_FATAL, _end()), (_REFUSED, _refuse())):
        for row in table.values():
            number = row[column]
            if number is not None:
                code += [(_EQUAL, 0, 1, number), result]
    return [*code, _allow()]


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half: pids, flags and commands have no more


def _refuse() -> Instruction:
    return (_RETURN, 0, 0, _EPERM)


def _end() -> Instruction:
    return (_RETURN, 0, 0, _KILL_PROCESS)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _if_call(number: int, then: list[Instruction]) -> list[Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter)))


def install() -> None:
    """Put the filter on this process, for good. Raises ``OSError`` when the kernel has none."""
    code = program(os.uname().machine, os.getpid())
    array = (_Filter * len(code))(*(_Filter(*instruction) for instruction in code))
    whole = _Program(len(code), array)
    prctl(PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")
    address = ctypes.addressof(whole)
    checked(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.c_ulong(address), 0, 0), "prctl(PR_SET_SECCOMP)")
