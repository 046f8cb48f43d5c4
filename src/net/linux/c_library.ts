/**
 * Functions of the C library, for the few things that no runtime offers. Only if the runtime can call
 * them (Bun) and the system is Linux, whose constants and layouts the callers have.
 *
 * @module
 */

import process from "node:process";

interface ForeignFunctions {
  dlopen(
    path: string,
    symbols: Readonly<Record<string, { readonly args: readonly CType[]; readonly returns: CType }>>,
  ): { readonly symbols: unknown };
}

type CType = "i32" | "u32" | "i64" | "usize" | "ptr";

export interface CLibrary {
  close(fd: number): number;
  dup3(from: number, to: number, flags: number): number;
  epoll_create1(flags: number): number;
  epoll_ctl(epoll: number, operation: number, fd: number, event: Uint8Array): number;
  epoll_wait(epoll: number, events: Uint8Array, limit: number, timeoutMs: number): number;
  fcntl(fd: number, command: number, least: number): number;
  listen(fd: number, backlog: number): number;
  madvise(address: number, length: number, advice: number): number;
  poll(fds: Uint8Array, count: number, timeoutMs: number): number;
  recv(fd: number, buffer: Uint8Array, size: number, flags: number): number;
  send(fd: number, data: Uint8Array, length: number, flags: number): number | bigint;
  sendto(
    fd: number,
    data: Uint8Array,
    length: number,
    flags: number,
    address: Uint8Array,
    addressLength: number,
  ): number | bigint;
  setsockopt(fd: number, level: number, option: number, value: Uint8Array, size: number): number;
  socket(family: number, type: number, protocol: number): number;
}

/** All functions at once: opening the library is the cost, a further function is free. */
const SIGNATURES = {
  close: { args: ["i32"], returns: "i32" },
  dup3: { args: ["i32", "i32", "i32"], returns: "i32" },
  epoll_create1: { args: ["i32"], returns: "i32" },
  epoll_ctl: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" },
  epoll_wait: { args: ["i32", "ptr", "i32", "i32"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  listen: { args: ["i32", "i32"], returns: "i32" },
  madvise: { args: ["usize", "usize", "i32"], returns: "i32" },
  poll: { args: ["ptr", "usize", "i32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "usize", "i32"], returns: "i32" },
  send: { args: ["i32", "ptr", "usize", "i32"], returns: "i64" },
  sendto: { args: ["i32", "ptr", "usize", "i32", "ptr", "u32"], returns: "i64" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
} as const satisfies Record<keyof CLibrary, unknown>;

let library: CLibrary | null | undefined;

/** Undefined: the library cannot be called here. */
export function cLibrary(): CLibrary | undefined {
  library ??= open() ?? null;
  return library ?? undefined;
}

function open(): CLibrary | undefined {
  if (process.platform !== "linux") return undefined;
  const load = process.getBuiltinModule as ((name: string) => ForeignFunctions | undefined);
  const foreign = load?.("bun:ffi");
  if (!foreign) return undefined;
  const musl = `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`;
  for (const name of ["libc.so.6", musl]) {
    try {
      return foreign.dlopen(name, SIGNATURES).symbols as CLibrary;
    } catch {
      // This system's C library has another name.
    }
  }
  return undefined;
}
