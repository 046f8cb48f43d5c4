/**
 * What both engines do around binding an address.
 *
 * @module
 */

import { lstat, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { type BindAddress, formatAddress, messageOf, ProxyError } from "../base/mod.ts";

/** A bind that failed, in words that name the address and what to do. */
export function listenError(address: BindAddress, cause: unknown): ProxyError {
  const where = formatAddress(address);
  const code = (cause as { code?: string } | undefined)?.code ?? "";
  const fact = {
    EADDRINUSE: "the address is in use by another process",
    EACCES: "permission denied; ports below 1024 need the ambient capability CAP_NET_BIND_SERVICE",
    EADDRNOTAVAIL: "this host has no such address",
    // What Deno says of an address that the host does not have.
    EINVAL: "the system refused the address; this host may have no such address",
    EMFILE: "no file descriptor is left; raise the limit of open files",
    ENOENT: "the directory of the socket does not exist",
  }[code] ?? messageOf(cause);
  return new ProxyError("listen_failed", `Cannot listen on ${where}: ${fact}`, { cause });
}

/** Removes a socket file that nobody serves any more, and only that. */
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
