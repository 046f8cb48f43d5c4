/**
 * Functions of the C library, for the few things that no runtime offers. Only where the runtime can call
 * them (Bun) and the system is the one whose constants and layouts the callers know (Linux).
 *
 * @module
 */

import process from "node:process";

interface ForeignFunctions {
  dlopen(
    path: string,
    symbols: Readonly<Record<string, CFunction>>,
  ): { readonly symbols: unknown };
}

export interface CFunction {
  readonly args: readonly CType[];
  readonly returns: CType;
}

type CType = "i32" | "u32" | "i64" | "usize" | "ptr";

/** The functions of that shape, or undefined where they cannot be called. */
export function openCLibrary<Library>(
  symbols: Readonly<Record<keyof Library & string, CFunction>>,
): Library | undefined {
  if (process.platform !== "linux") return undefined;
  const load = process.getBuiltinModule as ((name: string) => ForeignFunctions | undefined);
  const foreign = load?.("bun:ffi");
  if (!foreign) return undefined;
  const musl = `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`;
  for (const name of ["libc.so.6", musl]) {
    try {
      return foreign.dlopen(name, symbols).symbols as Library;
    } catch {
      // Not the C library of this system; the next name may be.
    }
  }
  return undefined;
}
