/**
 * Sockets that systemd passes to this process (`sd_listen_fds(3)`). A listener takes the one with its address.
 *
 * Those of a `.socket` unit stay open in systemd, so no other socket can have the address: this proxy keeps
 * them for listeners that come later, and they go to the next process with the others.
 *
 * Those of the process before, which systemd has only during a restart (`FileDescriptorStoreMax=`): clients
 * wait in their queues until this process accepts.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../base/mod.ts";
import { canHandOver, closeDescriptor, duplicate, listeningAddress } from "../../net/mod.ts";
import type { ListeningSocket } from "../../net/mod.ts";
import type { OfferedSocket } from "./handover.ts";
import type { Notifier } from "./notify.ts";
import type { DataPlane } from "../workers/plane.ts";

/** A socket with its name in `LISTEN_FDNAMES`, by default the name of its unit. */
export interface ActivatedSocket extends ListeningSocket {
  readonly name: string;
}

/** Sockets for listeners, or for servers. */
export interface PlaneSockets {
  /** Sockets of the process before. A data plane accepts nothing there until `DataPlane.accept`. */
  readonly inherited?: readonly ListeningSocket[] | undefined;
  /** Sockets of `.socket` units. */
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
    const fix =
      "only the executable on Linux can; remove its .socket unit, or stop it and start it again";
    throw refused(`this runtime cannot listen on them, ${fix}`);
  }
  const names = LISTEN_FDNAMES.split(":");
  return Array.from({ length: count }, (_, at) => FIRST + at).flatMap((fd, at) => {
    const name = names[at] || `descriptor ${fd}`;
    const address = listeningAddress(fd);
    const copy = address === undefined ? undefined : duplicate(fd);
    const isUsable = address !== undefined && copy !== undefined;
    if (!isUsable && !isLeft({ name })) {
      throw refused(`"${name}" does not listen; its unit needs ListenStream= and Accept=no`);
    }
    closeDescriptor(fd);
    return isUsable ? [{ name, address, fd: copy }] : [];
  });
}

/** Names in systemd of the sockets that it has during a restart. */
const LEFT = { listener: "postern-listener", server: "postern-server" } as const;

function isLeft({ name }: Pick<ActivatedSocket, "name">): boolean {
  return name === LEFT.listener || name === LEFT.server;
}

/** At the latest so long after the first snapshot is in force, clients of the process before are accepted. */
const ACCEPT_MS = 5_000;

interface SystemdSocketsOptions {
  readonly activated: readonly ActivatedSocket[];
  readonly notifier: Pick<Notifier, "enabled" | "storeDescriptors" | "removeDescriptors">;
  readonly log: Log;
  /** `FDSTORE`: how many descriptors systemd takes. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export class SystemdSockets {
  readonly #options: SystemdSocketsOptions;
  readonly #limit: number;
  #kept: readonly ActivatedSocket[];
  /** Sockets of the process before that nothing has taken. */
  #left: ActivatedSocket[];
  /** The process before has left sockets, and this one does not accept yet. */
  #isAwaited: boolean;

  constructor(options: SystemdSocketsOptions) {
    const { activated, env, notifier, log } = options;
    this.#options = options;
    this.#kept = activated.filter((socket) => !isLeft(socket));
    this.#left = activated.filter(isLeft);
    this.#isAwaited = this.#left.length > 0;
    const limit = notifier.enabled ? Number(env.FDSTORE ?? 0) : 0;
    this.#limit = canHandOver() && limit > 0 ? limit : 0;
    if (limit > 0 && this.#limit === 0) {
      log.info(
        "systemd cannot keep the sockets during a restart: only the executable on Linux can",
      );
    }
  }

  /** `before`: from a process that hands them over. Otherwise those that the process before has left. */
  socketsFor(use: keyof typeof LEFT, before?: readonly ListeningSocket[]): PlaneSockets {
    const kept = this.#kept;
    if (before || !this.#isAwaited) return { inherited: before, kept };
    const inherited = this.#left.filter(({ name }) => name === LEFT[use]);
    this.#left = this.#left.filter(({ name }) => name !== LEFT[use]);
    return { inherited, kept };
  }

  /** The process before hands over its sockets, those of `.socket` units among them. */
  replace(kept: readonly ListeningSocket[]): void {
    if (kept.length > 0) {
      for (const { fd } of this.#kept) closeDescriptor(fd);
      this.#kept = kept.map((socket) => ({ name: "", ...socket }));
    }
    for (const { fd } of this.#left.splice(0)) closeDescriptor(fd);
    this.#forget();
  }

  /** Copies of the sockets of `.socket` units for another process. */
  copies(): readonly ActivatedSocket[] {
    return this.#kept.flatMap((socket) => {
      const fd = duplicate(socket.fd);
      return fd === undefined ? [] : [{ ...socket, fd }];
    });
  }

  /** Accepts at the sockets that the process before has left: now, because the proxy is ready. */
  accept(plane: Pick<DataPlane, "accept">): void {
    if (this.#isAwaited) void plane.accept().then(() => this.#forget());
  }

  /** The same soon, because a snapshot is in force: not every listener may become usable. */
  acceptLater(plane: Pick<DataPlane, "accept">, clock: Clock): void {
    if (this.#isAwaited) clock.after(ACCEPT_MS, () => this.accept(plane));
  }

  /** A copy in systemd would let clients wait at a socket that is closed here. */
  #forget(): void {
    if (!this.#isAwaited) return;
    this.#isAwaited = false;
    this.#remove();
  }

  #remove(): void {
    for (const name of Object.values(LEFT)) this.#options.notifier.removeDescriptors(name);
  }

  /** Leaves sockets, closed here, to the next process if systemd takes them. True: it has them. */
  async leave(open: () => Promise<readonly OfferedSocket[]>): Promise<boolean> {
    const { notifier, log } = this.#options;
    const limit = this.#limit;
    if (limit === 0) return false;
    const all = await open();
    const sockets = all.filter(({ use, address }) =>
      use !== "kept" && !this.#kept.some((kept) => kept.address === address)
    );
    const isSent = sockets.length <= limit && (["listener", "server"] as const).every((use) => {
      const fds = sockets.filter((socket) => socket.use === use).map(({ fd }) => fd);
      return fds.length === 0 || notifier.storeDescriptors(LEFT[use], fds);
    });
    for (const { fd } of all) closeDescriptor(fd);
    // Some of them alone would let clients wait for nothing.
    if (!isSent && sockets.length <= limit) this.#remove();
    if (isSent) {
      log.info("systemd has the sockets for the next process", { sockets: sockets.length });
    } else {
      const facts = { sockets: sockets.length, FileDescriptorStoreMax: limit };
      log.warn(
        "systemd does not keep the sockets: connections are refused during a restart",
        facts,
      );
    }
    return isSent;
  }

  /** Logs sockets of `.socket` units that nothing has taken. `servers`: copies, which are closed here. */
  async nameUnused(
    plane: Pick<DataPlane, "listeners"> | undefined,
    servers: () => readonly ListeningSocket[],
  ): Promise<void> {
    if (this.#kept.length === 0) return;
    const open = servers();
    for (const { fd } of open) closeDescriptor(fd);
    const listeners = await plane?.listeners() ?? [];
    const used = new Set([...listeners.flat(), ...open].map(({ address }) => address));
    for (const { name: socket, address } of this.#kept) {
      if (used.has(address)) continue;
      const fields = { socket, address };
      this.#options.log.warn(
        "a socket of systemd is not used: nothing listens at its address",
        fields,
      );
    }
  }
}

function refused(reason: string): ProxyError {
  return new ProxyError("config_invalid", `Cannot use the sockets of systemd: ${reason}`);
}
