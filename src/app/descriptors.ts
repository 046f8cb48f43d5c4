/**
 * How many connections the process's file descriptors allow. A listener that has none left is told of
 * the waiting connection again and again and can do nothing about it, so the limit on connections must
 * be reached first.
 *
 * @module
 */

/** The socket that was accepted, the one that was dialled for it, and one handshake to four of them. */
const PER_CONNECTION = 2.25;
/** Listeners, the agent, files, the runtime. */
const RESERVE = 256;

/** `wanted`, or fewer where that many do not fit; `limit` of `undefined`: unknown, taken as enough. */
export function fittingConnections(wanted: number, limit: number | undefined): number {
  if (limit === undefined) return wanted;
  const reserve = Math.min(RESERVE, Math.floor(limit / 2));
  return Math.max(1, Math.min(wanted, Math.floor((limit - reserve) / PER_CONNECTION)));
}

/** That fewer connections fit than `wanted`, and what to do about it. */
export function tooFewFiles(
  wanted: number,
  inForce: { readonly maxConnections: number; readonly openFiles: number | undefined },
): string {
  const needed = Math.ceil(wanted * PER_CONNECTION) + RESERVE;
  return `only ${inForce.maxConnections} of ${wanted} connections fit: the limit on open files is ` +
    `${inForce.openFiles}; raise it to ${needed} (systemd: LimitNOFILE=${needed}, containers: ` +
    `--ulimit nofile=${needed}, supervisord: minfds=${needed}) or lower -max-connections`;
}
