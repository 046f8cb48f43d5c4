/**
 * Sockets that systemd opened for this process (`sd_listen_fds(3)`). A listener takes the one with its
 * address. systemd keeps them open, so no other socket can have the address: they stay with this proxy for
 * listeners that come later, and go to the next process with the others.
 *
 * @module
 */

import { type Log, ProxyError } from "../../base/mod.ts";
import { canHandOver, closeDescriptor, duplicate, listeningAddress } from "../../net/mod.ts";
import type { ListeningSocket } from "../../net/mod.ts";
import type { DataPlane } from "../workers/plane.ts";

/** A socket with its name in `LISTEN_FDNAMES`, by default the name of its unit. */
export interface ActivatedSocket extends ListeningSocket {
  readonly name: string;
}

export interface PlaneSockets {
  /** Listening sockets of the process before, which accepts until `DataPlane.accept`. */
  readonly inherited?: readonly ListeningSocket[] | undefined;
  /** Those of systemd. */
  readonly kept: readonly ActivatedSocket[];
}

/** The first descriptor that systemd passes. */
const FIRST = 3;
const MOST = 1_024;

/**
 * The sockets, closed when a program is started; removes the variables from `env`, since they are for this
 * process alone. Throws `config_invalid` for a socket that cannot be used.
 */
export function takeActivated(
  env: Record<string, string | undefined>,
  pid: number,
): readonly ActivatedSocket[] {
  const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = "" } = env;
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete env[name];
  const count = Number(LISTEN_FDS ?? 0);
  if (LISTEN_PID !== String(pid) || count === 0) return [];
  if (!Number.isInteger(count) || count < 0 || count > MOST) {
    throw refused(`LISTEN_FDS is ${LISTEN_FDS}: want a number up to ${MOST}`);
  }
  if (!canHandOver()) {
    const fix = "only the executable on Linux can; remove its .socket unit";
    throw refused(`this runtime cannot listen on them, ${fix}`);
  }
  const names = LISTEN_FDNAMES.split(":");
  return Array.from({ length: count }, (_, at) => {
    const fd = FIRST + at;
    const name = names[at] || `descriptor ${fd}`;
    const address = listeningAddress(fd);
    const copy = address === undefined ? undefined : duplicate(fd);
    if (address === undefined || copy === undefined) {
      throw refused(`"${name}" does not listen; its unit needs ListenStream= and Accept=no`);
    }
    closeDescriptor(fd);
    return { name, address, fd: copy };
  });
}

/** Copies for another process. */
export function copiesOf(sockets: readonly ActivatedSocket[]): readonly ActivatedSocket[] {
  return sockets.flatMap((socket) => {
    const fd = duplicate(socket.fd);
    return fd === undefined ? [] : [{ ...socket, fd }];
  });
}

/** Logs those that neither a listener nor a server has taken. `servers`: copies, which are closed here. */
export async function nameUnused(
  sockets: readonly ActivatedSocket[],
  { plane, servers, log }: {
    readonly plane: Pick<DataPlane, "listeners"> | undefined;
    readonly servers: readonly ListeningSocket[];
    readonly log: Log;
  },
): Promise<void> {
  for (const { fd } of servers) closeDescriptor(fd);
  const listeners = await plane?.listeners() ?? [];
  const used = new Set([...listeners.flat(), ...servers].map(({ address }) => address));
  for (const { name: socket, address } of sockets) {
    if (used.has(address)) continue;
    const fields = { socket, address };
    log.warn("a socket of systemd is not used: nothing listens at its address", fields);
  }
}

function refused(reason: string): ProxyError {
  return new ProxyError("config_invalid", `Cannot use the sockets of systemd: ${reason}`);
}
