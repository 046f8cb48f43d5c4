/**
 * A listening socket of Bun that can be told to let its clients wait.
 *
 * @module
 */

import { chmodSync } from "node:fs";
import type { BindAddress } from "../base/mod.ts";
import { lengthenBacklog } from "./backlog.ts";
import { served } from "./bun_owner.ts";
import type { BunListener, BunRuntime, BunSocketHandler } from "./bun_types.ts";
import { deferAccept } from "./defer_accept.ts";
import { findWatch, park, report, unpark, type Watch } from "./epoll.ts";
import { listenError } from "./listen.ts";
import type { Listener, ListenOptions } from "./port.ts";

export class NativeListener implements Listener {
  readonly address: BindAddress;
  readonly #bind: () => BunListener;
  readonly #deferredSocket: BunSocketHandler;
  #native: BunListener | undefined;
  #watch: Watch | undefined;
  /** Accepted in a row, with no event of an open socket in between. */
  #row = 0;
  readonly #longestRow: number;
  #servedBefore = 0;
  #breathing = false;
  /** Where the socket is while it is paused. */
  #parked: number | undefined;
  #deferred = false;
  #state: "open" | "paused" | "closed" = "open";

  /**
   * `longestRow`: clients that are accepted before others are served; `deferredSocket`: callbacks in
   * place of `socket` once {@link defer} was called.
   */
  constructor(
    bun: BunRuntime,
    options: ListenOptions,
    { longestRow, socket, deferredSocket = socket }: {
      readonly longestRow: number;
      readonly socket: BunSocketHandler;
      readonly deferredSocket?: BunSocketHandler | undefined;
    },
  ) {
    this.#longestRow = longestRow;
    const { address, reusePort } = options;
    const native = bind(bun, { address, reusePort }, socket);
    this.address = address.kind === "unix" ? address : { ...address, port: native.port };
    this.#deferredSocket = deferredSocket;
    const current = () => this.#deferred ? deferredSocket : socket;
    this.#bind = () => bind(bun, { address: this.address, reusePort }, current());
    this.#native = native;
  }

  get keepsWaiting(): boolean {
    const { fd } = this.#native ?? {};
    this.#watch ??= fd === undefined ? undefined : findWatch(fd);
    return this.#watch !== undefined;
  }

  /**
   * To be called around each client: the runtime accepts as long as any wait, and in a storm of them
   * would serve no open socket, nor notice that one is closed.
   */
  accepting(): void {
    if (served.count !== this.#servedBefore) this.#row = 0;
  }

  accepted(): void {
    // What this one ended is no event that was waited for.
    this.#servedBefore = served.count;
    if (++this.#row < this.#longestRow || this.#state !== "open" || !this.keepsWaiting) return;
    this.#row = 0;
    this.pause();
    this.#breathing = true;
    setImmediate(() => {
      if (this.#breathing) this.resume();
    });
  }

  pause(): void {
    // Longer than for a breath, if it is one.
    this.#breathing = false;
    if (this.#state !== "open") return;
    this.#state = "paused";
    if (this.keepsWaiting && this.#watch && report(this.#watch, false)) {
      this.#parked = park(this.#watch);
      return;
    }
    // Where the kernel cannot be told, nobody listens meanwhile: clients are refused, not left waiting.
    this.#watch = undefined;
    this.#native?.stop(false);
    this.#native = undefined;
  }

  resume(): void {
    this.#breathing = false;
    if (this.#state !== "paused") return;
    this.#unpark();
    if (this.#watch) report(this.#watch, true);
    else this.#native = this.#bind();
    this.#deferAccept();
    this.#state = "open";
  }

  /** From now on clients are handed out once they have spoken, where the kernel can do that. */
  defer(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    this.#native?.reload({ socket: this.#deferredSocket });
    this.#deferAccept();
  }

  #deferAccept(): void {
    if (!this.#deferred || !this.#native || this.address.kind === "unix") return;
    deferAccept(this.#native.fd);
  }

  #unpark(): void {
    if (this.#watch && this.#parked !== undefined) unpark(this.#watch, this.#parked);
    this.#parked = undefined;
  }

  close(): void {
    this.#unpark();
    this.#state = "closed";
    this.#native?.stop(false);
    this.#native = undefined;
  }
}

function bind(
  bun: BunRuntime,
  { address, reusePort }: ListenOptions,
  socket: BunSocketHandler,
): BunListener {
  let native: BunListener;
  try {
    native = address.kind === "unix"
      ? bun.listen({ unix: address.path, allowHalfOpen: true, socket })
      : bun.listen({
        hostname: address.host,
        port: address.port,
        reusePort,
        exclusive: !reusePort,
        allowHalfOpen: true,
        socket,
      });
  } catch (error) {
    throw listenError(address, error);
  }
  lengthenBacklog(native.fd);
  if (address.kind === "unix" && address.mode !== undefined) chmodSync(address.path, address.mode);
  return native;
}
