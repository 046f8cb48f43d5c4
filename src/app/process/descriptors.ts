/** Connections that file descriptors allow: a listener without a free one would spin. @module */

import { DEFAULT_CONNECTIONS } from "../flags/proxy_flags.ts";

/** The socket that was accepted, the one that was dialled for it, and one handshake to four of them. */
const PER_CONNECTION = 2.25;
/** Listeners, the agent, files, the runtime. */
const RESERVE = 256;

/** Below this many, the limit on open files is low also for the default of -max-connections. */
const FEW_CONNECTIONS = 4_096;

/** `wanted`, or fewer where that many do not fit; `limit` of `undefined`: unknown, taken as enough. */
export function fittingConnections(wanted: number, limit: number | undefined): number {
  if (limit === undefined) return wanted;
  const reserve = Math.min(RESERVE, Math.floor(limit / 2));
  return Math.max(1, Math.min(wanted, Math.floor((limit - reserve) / PER_CONNECTION)));
}

/** A warning that fewer connections fit than `wanted`, with the remedy; undefined: enough fit. */
export function tooFewFiles(
  wanted: number,
  inForce: { readonly maxConnections: number; readonly openFiles: number | undefined },
): string | undefined {
  const enough = wanted === DEFAULT_CONNECTIONS ? FEW_CONNECTIONS : wanted;
  if (inForce.maxConnections >= enough) return undefined;
  const needed = Math.ceil(wanted * PER_CONNECTION) + RESERVE;
  return `only ${inForce.maxConnections} of ${wanted} connections fit: the limit on open files is ` +
    `${inForce.openFiles}; raise it to ${needed} (systemd: LimitNOFILE=${needed}, containers: ` +
    `--ulimit nofile=${needed}, supervisord: minfds=${needed}) or lower -max-connections`;
}
