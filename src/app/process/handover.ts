/**
 * One process of a proxy hands its listening sockets to the next one. The new process takes copies of them,
 * loads, and says that it is ready; only then the old one stops accepting. A new process that ends before
 * leaves the old one serving.
 *
 * 1. New: `take`. Old: `sockets`, in as many messages as they need, `state`, then `offered`.
 * 2. New: `ready`. Old: `state` as it is now, then `go`. Some earlier versions do not send or read `state`.
 * 3. New accepts connections: `serving`. Old stops accepting: `over`.
 *
 * @module
 */

import { type Clock, type Log, ProxyError, type Timer } from "../../base/mod.ts";
import {
  closeDescriptor,
  DESCRIPTORS_PER_MESSAGE,
  HandoverLink,
  hasLink,
  listenForLink,
  type ListeningSocket,
  openLink,
  waitingProcesses,
} from "../../net/mod.ts";
import { type HandedState, readHandedState } from "./handed_state.ts";
import { VERSION } from "./version.ts";

/** Changes when a process cannot understand the messages of an earlier one. */
const PROTOCOL = 1;
/** The new process must be ready within this time. */
const READY_MS = 60_000;
/** Processes of this user that are connected at the same time; most only look whether this one is here. */
const LINKS = 16;
/** The other process must answer within this time. */
const ANSWER_MS = 10_000;

/** `listener`: of the data path; `server`: of the admin server or of metrics; `kept`: systemd holds it. */
export interface OfferedSocket extends ListeningSocket {
  readonly use: "listener" | "server" | "kept";
  /** Its name in systemd. */
  readonly name?: string;
}

/** The sockets of the process before, until this process serves. */
export interface Inheritance {
  readonly pid: number;
  readonly sockets: readonly OfferedSocket[];
  /** As it was at the beginning; `undefined`: none that can be used. */
  readonly state: HandedState | undefined;
  /**
   * This process is ready; resolves when it shall accept, at the latest when the process before is gone.
   * Rejects when that one does not hand over. `undefined`: it told no state that can be used.
   */
  ready(): Promise<HandedState | undefined>;
  /** This process accepts; resolves when the process before does not any more. */
  serving(): Promise<void>;
  /** Gives up: the process before goes on. */
  close(): void;
}

export interface OfferOptions {
  /** Copies of the sockets, which are closed here. */
  sockets(): Promise<readonly OfferedSocket[]>;
  /** For the new process: when it starts, and just before it accepts. Never rejects. */
  state(): Promise<HandedState | undefined>;
  /** The new process accepts connections: this one stops. */
  onTaken(pid: number): void;
}

interface HandoverOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The same for all processes of one proxy, and for no other. */
  readonly purpose: string;
  /** The parent of this process has failed to start the next one. */
  readonly onFailedStart?: (reason: string) => void;
}

type Message = {
  readonly kind?: unknown;
  readonly protocol?: unknown;
  readonly version?: unknown;
  readonly reason?: unknown;
  readonly sockets?: unknown;
  readonly state?: unknown;
};

export class Handover {
  readonly #options: HandoverOptions;
  #server: { close(): void } | undefined;
  readonly #offerings = new Set<Offering>();
  #failure: { readonly pid: number; readonly reason: string } | undefined;

  constructor(options: HandoverOptions) {
    this.#options = options;
  }

  /** A process of this proxy seems to run. */
  get hasPredecessor(): boolean {
    return hasLink(this.#options.purpose);
  }

  /** `undefined`: no process of this proxy runs. Rejects when it does not offer its sockets. */
  async inherit(): Promise<Inheritance | undefined> {
    const { purpose, clock, log } = this.#options;
    const link = openLink(purpose, clock);
    if (!link) return undefined;
    const taking = new Taking(link, clock);
    const inherited = await taking.take();
    const { pid, sockets } = inherited;
    log.info("taking over from a running process", { process: pid, sockets: sockets.length });
    return inherited;
  }

  /** This process waits for the next one: it serves. */
  isServedBy(pid: number): boolean {
    return waitingProcesses(this.#options.purpose).includes(pid);
  }

  /** Tells the process that serves that the next one has failed. */
  reportFailedStart(reason: string): void {
    const { purpose, clock } = this.#options;
    const link = openLink(purpose, clock);
    link?.send({ kind: "failed", reason });
    link?.close();
  }

  /** Why this process did not take over; `undefined`: it has not asked, or has not failed. */
  failureOf(pid: number): string | undefined {
    return this.#failure?.pid === pid ? this.#failure.reason : undefined;
  }

  /** Offers the sockets to the next process. */
  offer(options: OfferOptions): void {
    const { purpose, clock, log, onFailedStart } = this.#options;
    this.#server ??= listenForLink(purpose, {
      clock,
      onLink: (link) => {
        for (const one of this.#offerings) if (!one.isOpen) this.#offerings.delete(one);
        if (this.#offerings.size >= LINKS) return link.close();
        const isBusy = () => [...this.#offerings].some(({ isTaken }) => isTaken);
        const onFailed = (pid: number, reason: string) => this.#failure = { pid, reason };
        const deps = { clock, log, isBusy, onFailed, onFailedStart };
        const onTaken = (pid: number) => {
          // The next process must ask the one that serves: this one has no sockets any more.
          this.#server?.close();
          options.onTaken(pid);
        };
        this.#offerings.add(new Offering(link, { ...options, onTaken }, deps));
      },
      onError: (reason) => log.warn("no other process can take over from this one", { reason }),
    });
  }

  close(): void {
    this.#server?.close();
    for (const one of this.#offerings) one.close();
  }
}

/** The old process's side of one handover. */
class Offering {
  readonly #link: HandoverLink;
  readonly #options: OfferOptions;
  readonly #log: Log;
  readonly #isBusy: () => boolean;
  readonly #onFailed: (pid: number, reason: string) => void;
  readonly #onFailedStart: ((reason: string) => void) | undefined;
  readonly #late: Timer;
  #state: "asked" | "offered" | "told" | "over" = "asked";

  constructor(
    link: HandoverLink,
    options: OfferOptions,
    { clock, log, isBusy, onFailed, onFailedStart }: {
      readonly clock: Clock;
      readonly log: Log;
      /** Another process is taking over. */
      readonly isBusy: () => boolean;
      readonly onFailed: (pid: number, reason: string) => void;
      readonly onFailedStart: ((reason: string) => void) | undefined;
    },
  ) {
    this.#link = link;
    this.#options = options;
    this.#log = log;
    this.#isBusy = isBusy;
    this.#onFailed = onFailed;
    this.#onFailedStart = onFailedStart;
    this.#late = clock.after(
      READY_MS,
      () => this.#refuse(`it was not ready within ${READY_MS / 1_000} s`),
    );
    link.events = {
      onMessage: (message, descriptors) => {
        descriptors.forEach(closeDescriptor);
        this.#take(message as Message);
      },
      onEnd: () => this.#failed("it ended before it was ready; its own log says why"),
    };
  }

  get isOpen(): boolean {
    return this.#state !== "over";
  }

  /** The other process has asked for the sockets. */
  get isTaken(): boolean {
    return this.#state === "offered" || this.#state === "told";
  }

  close(): void {
    this.#late.cancel();
    this.#state = "over";
    this.#link.close();
  }

  #take({ kind, protocol, version, reason }: Message): void {
    const { pid } = this.#link.peer;
    if (kind === "failed" && this.#state === "asked") {
      this.close();
      return this.#onFailedStart?.(String(reason));
    }
    if (kind === "take" && this.#state === "asked") {
      if (this.#isBusy()) return this.#refuse("another process takes over at this moment");
      if (protocol !== PROTOCOL) return this.#refuse("it speaks another version of the handover");
      this.#log.info("another process takes over", { process: pid, version: String(version) });
      this.#state = "offered";
      void this.#offer();
    } else if (kind === "ready" && this.#state === "offered") {
      this.#state = "told";
      void this.#tellState("go");
    } else if (kind === "serving" && this.#state === "told") {
      this.#state = "over";
      this.#late.cancel();
      this.#options.onTaken(pid);
      this.#link.send({ kind: "over" });
    } else this.#refuse("it sent a message that does not belong here");
  }

  async #offer(): Promise<void> {
    const sockets = await this.#options.sockets();
    for (let at = 0; at < sockets.length; at += DESCRIPTORS_PER_MESSAGE) {
      const some = sockets.slice(at, at + DESCRIPTORS_PER_MESSAGE);
      const named = some.map(({ address, use, name }) => ({ address, use, name }));
      if (this.isOpen) {
        this.#link.send(
          { kind: "sockets", sockets: named },
          some.map(({ fd }) => fd),
        );
      }
    }
    for (const { fd } of sockets) closeDescriptor(fd);
    await this.#tellState("offered");
  }

  async #tellState(andThen: "offered" | "go"): Promise<void> {
    const state = await this.#options.state();
    if (!this.isOpen) return;
    if (state) this.#link.send({ kind: "state", state });
    this.#link.send({ kind: andThen });
  }

  #refuse(reason: string): void {
    this.#link.send({ kind: "refused", reason });
    this.#failed(reason);
  }

  #failed(reason: string): void {
    const { isTaken } = this;
    this.close();
    // It only looked whether this process is here.
    if (!isTaken) return;
    const { pid } = this.#link.peer;
    this.#onFailed(pid, reason);
    this.#log.error("handover failed; this process goes on serving", { process: pid, reason });
  }
}

/** The new process's side. */
class Taking {
  readonly #link: HandoverLink;
  readonly #clock: Clock;
  readonly #sockets: OfferedSocket[] = [];
  #state: HandedState | undefined;
  readonly #ended = Promise.withResolvers<"ended">();
  readonly #refused = Promise.withResolvers<never>();
  readonly #heard = {
    offered: Promise.withResolvers<void>(),
    go: Promise.withResolvers<void>(),
    over: Promise.withResolvers<void>(),
  };

  constructor(link: HandoverLink, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
    this.#refused.promise.catch(() => {});
    link.events = {
      onMessage: (message, descriptors) => this.#take(message as Message, descriptors),
      onEnd: () => this.#ended.resolve("ended"),
    };
  }

  async take(): Promise<Inheritance> {
    this.#link.send({ kind: "take", protocol: PROTOCOL, version: VERSION });
    try {
      if (await this.#until("offered") === "ended") throw this.#error("it ended");
    } catch (error) {
      this.#link.close();
      for (const { fd } of this.#sockets) closeDescriptor(fd);
      throw error;
    }
    return {
      pid: this.#link.peer.pid,
      sockets: this.#sockets,
      state: this.#state,
      ready: async () => {
        this.#link.send({ kind: "ready" });
        await this.#until("go");
        return this.#state;
      },
      serving: async () => {
        this.#link.send({ kind: "serving" });
        await this.#until("over");
        this.#link.close();
      },
      close: () => this.#link.close(),
    };
  }

  #take({ kind, reason, sockets, state }: Message, descriptors: readonly number[]): void {
    if (kind === "sockets") {
      const named = Array.isArray(sockets) ? sockets : [];
      for (const [at, fd] of descriptors.entries()) {
        const { address = "", use = "listener", name = "" } = named[at] ?? {};
        this.#sockets.push({ address, use, fd, name });
      }
      return;
    }
    descriptors.forEach(closeDescriptor);
    if (kind === "state") this.#state = readHandedState(state);
    else if (kind === "refused") this.#refused.reject(this.#error(String(reason)));
    else if (kind === "offered" || kind === "go" || kind === "over") this.#heard[kind].resolve();
  }

  #error(reason: string): ProxyError {
    const who = `process ${this.#link.peer.pid}`;
    return new ProxyError("listen_failed", `Cannot take over from ${who}: ${reason}`);
  }

  async #until(word: "offered" | "go" | "over"): Promise<"heard" | "ended"> {
    const late = Promise.withResolvers<never>();
    const timer = this.#clock.after(
      ANSWER_MS,
      () => late.reject(this.#error(`no answer within ${ANSWER_MS / 1_000} s`)),
    );
    const heard = this.#heard[word].promise.then(() => "heard" as const);
    try {
      return await Promise.race([heard, this.#ended.promise, this.#refused.promise, late.promise]);
    } finally {
      timer.cancel();
    }
  }
}
