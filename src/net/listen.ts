/** Binding an address: errors in words, and files of unix sockets. Used by both engines. @module */

import { Buffer } from "node:buffer";
import { chmodSync, linkSync, lstatSync, mkdtempSync, rmSync, unlinkSync } from "node:fs";
import { lstat, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { type BindAddress, formatAddress, messageOf, ProxyError } from "../base/mod.ts";

const IN_USE = "the address is in use by another process";
/** Bytes of `sun_path`, of which the last is a zero. */
const PATH_LIMIT_BYTES = 108;

/** The error of a failed bind: names the address and the remedy. */
export function listenError(address: BindAddress, cause: unknown): ProxyError {
  const where = formatAddress(address);
  const code = (cause as { code?: string } | undefined)?.code ?? "";
  const fact = {
    EADDRINUSE: IN_USE,
    EEXIST: IN_USE,
    EACCES: "permission denied; ports below 1024 need the ambient capability CAP_NET_BIND_SERVICE",
    EADDRNOTAVAIL: "this host has no such address",
    // Deno's code for an address that the host does not have.
    EINVAL: "the system refused the address; this host may have no such address",
    EMFILE: "no file descriptor is left; raise the limit of open files",
    ENOENT: "the directory of the socket does not exist",
    ENAMETOOLONG:
      "the path is too long for a socket, or for the one it is made from in a directory " +
      "beside it (108 bytes)",
  }[code] ?? messageOf(cause);
  return new ProxyError("listen_failed", `Cannot listen on ${where}: ${fact}`, { cause });
}

/** Removes a socket file that no process serves any more, and only that. */
export async function clearStaleSocket(path: string): Promise<void> {
  const info = await lstat(path).catch(() => undefined);
  if (!info?.isSocket()) return;
  const served = await new Promise<boolean>((resolve) => {
    const probe = connect({ path });
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", () => resolve(false));
  });
  if (!served) await unlink(path).catch(() => {});
}

/**
 * The file of a unix socket. It is bound in a directory that only we can enter, gets its mode there, and
 * is then linked to its name; without a configured mode it is bound to its name directly.
 */
export class UnixSocketFile {
  readonly path: string;
  readonly #name: string;
  readonly #mode: number | undefined;
  #directory: string | undefined;
  #inode: number | undefined;

  /**
   * Throws the file system's error, like {@link UnixSocketFile.publish}. `isThere`: it was published by
   * another process, which has handed the socket over.
   */
  constructor(
    { path, mode }: Extract<BindAddress, { readonly kind: "unix" }>,
    { isThere = false }: { readonly isThere?: boolean } = {},
  ) {
    this.#name = this.path = path;
    if (isThere) {
      this.#inode = lstatSync(path).ino;
      return;
    }
    this.#mode = mode;
    if (mode === undefined) return;
    this.#directory = mkdtempSync(`${dirname(path)}/.`);
    this.path = join(this.#directory, "s");
    if (Buffer.byteLength(this.path) < PATH_LIMIT_BYTES) return;
    this.discard();
    throw Object.assign(new Error("too long"), { code: "ENAMETOOLONG" });
  }

  /** After the bind: sets mode and name; fails if the name is taken. */
  publish(): void {
    if (this.#mode === undefined) return;
    try {
      chmodSync(this.path, this.#mode);
      linkSync(this.path, this.#name);
      this.#inode = lstatSync(this.#name).ino;
    } finally {
      this.discard();
    }
  }

  /** Removes the directory; after a failed bind, too. */
  discard(): void {
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true });
    this.#directory = undefined;
  }

  /** After the close: the runtime removes the path that it bound, and knows no other name. */
  remove(): void {
    try {
      if (this.#inode !== undefined && lstatSync(this.#name).ino === this.#inode) {
        unlinkSync(this.#name);
      }
    } catch {
      // Removed by another process already.
    }
  }
}
