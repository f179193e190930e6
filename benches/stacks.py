"""The place in ROOT where its process died: signal handlers that write the stack, and its frames by name."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

CATCH = r"""
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>
#include <cstdio>
int place_of_stack = -1;
void write_stack(int which, siginfo_t *, void *context) {
   void *frames[60];
   signal(SIGALRM, SIG_DFL);
   alarm(20); // with a damaged heap, what follows may wait for a lock
   dprintf(place_of_stack, "signal %d\n", which);
#ifdef __x86_64__
   auto *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
   if (registers[REG_RIP] >= 0 && registers[REG_RIP] < 65536) { // the call of a function that is none
      dprintf(place_of_stack, "call of address %llx\n", static_cast<unsigned long long>(registers[REG_RIP]));
      backtrace_symbols_fd(reinterpret_cast<void **>(registers[REG_RSP]), 1, place_of_stack);
   }
#endif
   backtrace_symbols_fd(frames, backtrace(frames, 60), place_of_stack);
   signal(which, SIG_DFL);
   raise(which);
}
void catch_death(int place) {
   place_of_stack = place;
   void *first[1];
   backtrace(first, 1); // loads what it needs
   static char other[1 << 17]; // the stack itself may be full
   stack_t space{};
   space.ss_sp = other;
   space.ss_size = sizeof other;
   sigaltstack(&space, nullptr);
   struct sigaction act{};
   act.sa_sigaction = write_stack;
   act.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
   for (int one : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(one, &act, nullptr);
}
"""
"""C++ that writes the stack to a file descriptor before the process dies of a signal."""

NAMES = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 24: "SIGXCPU"}
_SYMBOL = re.compile(r"^(.*)\((\w*)\+0x[0-9a-f]+\) ?\[0x", re.MULTILINE)
_LIBRARIES = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|cppyy\w*|CPyCppyy\w*|cling)\b|/python[\d.]*$|_ctypes")
_PYTHON = re.compile(r'^  File "([^"]*)", line (\d+) in (\S+)', re.MULTILINE)
_TEMPLATES = re.compile(r"<[^<>]*>")


def _demangled(symbols: Sequence[str]) -> list[str]:
    if not symbols or not shutil.which("c++filt"):
        return list(symbols)
    done = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True)
    return done.stdout.splitlines()


def _short(name: str) -> str:
    """Return the name of a function without its arguments and the arguments of its templates."""
    name = name.replace("operator()", "operator call").replace("(anonymous namespace)::", "")
    before = None
    while before != name:
        before, name = name, _TEMPLATES.sub("", name)
    return name.partition("(")[0].split()[-1] if name.partition("(")[0].split() else name


def frames(text: str, most: int = 3) -> str:
    """Return the signal and the innermost functions of what the handlers wrote, `A < B` if B called A.

    Functions of the C and C++ libraries and of the interpreter are left out, as are repeated ones.
    """
    if found := _PYTHON.findall(text):
        names = [f"{function} ({path.rpartition('/')[2]}:{line})" for path, line, function in found]
        return " < ".join(names[:most])
    number = re.search(r"^signal (\d+)", text, re.MULTILINE)
    every = [(library, symbol) for library, symbol in _SYMBOL.findall(text) if symbol]
    # An address in page 0 ends the walk: what called it may be in a library that is left out.
    symbols = [symbol for library, symbol in every if not _LIBRARIES.search(library)] or [
        symbol for library, symbol in every if "cppyy" in library
    ]
    names = list(dict.fromkeys(_short(name) for name in _demangled(symbols)))
    signal = NAMES.get(int(number[1]), f"signal {number[1]}") if number else ""
    signal += " by a call of no function" if "call of address" in text else ""
    return f"{signal} in {' < '.join(names[:most])}" if names else signal
