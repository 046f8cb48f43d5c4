/** Functions of the C library, for what no runtime offers. Only on Bun and Linux. @module */

import process from "node:process";

type CType = "i32" | "u32" | "i64" | "usize" | "ptr";

interface Signature {
  readonly args: readonly CType[];
  readonly returns: CType;
}

interface ForeignFunctions {
  dlopen(path: string, symbols: Readonly<Record<string, Signature>>): { readonly symbols: unknown };
  ptr(bytes: Uint8Array): number;
}

/** All functions at once: opening the library is the cost, a further function is free. */
const SIGNATURES = {
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
  connect: { args: ["i32", "ptr", "u32"], returns: "i32" },
  dup3: { args: ["i32", "i32", "i32"], returns: "i32" },
  epoll_create1: { args: ["i32"], returns: "i32" },
  epoll_ctl: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" },
  epoll_wait: { args: ["i32", "ptr", "i32", "i32"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  listen: { args: ["i32", "i32"], returns: "i32" },
  madvise: { args: ["usize", "usize", "i32"], returns: "i32" },
  poll: { args: ["ptr", "usize", "i32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "usize", "i32"], returns: "i32" },
  recvmsg: { args: ["i32", "ptr", "i32"], returns: "i64" },
  send: { args: ["i32", "ptr", "usize", "i32"], returns: "i64" },
  sendmsg: { args: ["i32", "ptr", "i32"], returns: "i64" },
  sendto: { args: ["i32", "ptr", "usize", "i32", "ptr", "u32"], returns: "i64" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
} as const satisfies Readonly<Record<string, Signature>>;

/** Their types: a pointer is to bytes, a 64-bit result may be a bigint. */
export type CLibrary = {
  readonly [Name in keyof typeof SIGNATURES]: (
    ...args: Arguments<(typeof SIGNATURES)[Name]["args"]>
  ) => (typeof SIGNATURES)[Name]["returns"] extends "i64" ? number | bigint : number;
};

type Arguments<Types extends readonly CType[]> = {
  [Index in keyof Types]: Types[Index] extends "ptr" ? Uint8Array : number;
};

let library: CLibrary | null | undefined;
let pointerTo: ForeignFunctions["ptr"] | undefined;

/**
 * The address of `bytes`, for a structure that holds pointers; only after {@link cLibrary} was found. `bytes`
 * has a buffer of its own (`new Uint8Array(new ArrayBuffer(n))`): the runtime moves other small arrays.
 */
export function addressOf(bytes: Uint8Array): bigint {
  return BigInt(pointerTo?.(bytes) ?? 0);
}

/** Undefined: the library cannot be called here. */
export function cLibrary(): CLibrary | undefined {
  library ??= open() ?? null;
  return library ?? undefined;
}

/** As the runtime's own monotonic time, it goes on while the machine is suspended. */
const CLOCK_BOOTTIME = 7;

/** Milliseconds since the machine was started, the same for all its processes. Undefined: not known here. */
export function uptimeMs(): number | undefined {
  const time = new DataView(new ArrayBuffer(16));
  if (cLibrary()?.clock_gettime(CLOCK_BOOTTIME, new Uint8Array(time.buffer)) !== 0) {
    return undefined;
  }
  return Number(time.getBigInt64(0, true)) * 1_000 + Number(time.getBigInt64(8, true)) / 1e6;
}

function open(): CLibrary | undefined {
  if (process.platform !== "linux") return undefined;
  const load = process.getBuiltinModule as ((name: string) => ForeignFunctions | undefined);
  const foreign = load?.("bun:ffi");
  if (!foreign) return undefined;
  const musl = `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`;
  for (const name of ["libc.so.6", musl]) {
    try {
      const { symbols } = foreign.dlopen(name, SIGNATURES);
      pointerTo = foreign.ptr;
      return symbols as CLibrary;
    } catch {
      // This system's C library has another name.
    }
  }
  return undefined;
}
