/** A listening socket of Bun that can let its clients wait. @module */

import type { BindAddress } from "../../base/mod.ts";
import { type BunListener, type BunRuntime, type BunSocketHandler, served } from "./bun_sockets.ts";
import { findWatch, park, report, unpark, type Watch } from "../linux/epoll_watch.ts";
import { duplicate, sharePort } from "../linux/descriptors.ts";
import { listenError, UnixSocketFile } from "../listen.ts";
import type { Listener, ListenOptions } from "../port.ts";
import { cLibrary } from "../linux/c_library.ts";

export class NativeListener implements Listener {
  readonly address: BindAddress;
  readonly #bind: () => Bound;
  readonly #deferredSocket: BunSocketHandler;
  #bound: Bound | undefined;
  #watch: Watch | undefined;
  /** Clients accepted in a row, with no event of an open socket in between. */
  #row = 0;
  readonly #longestRow: number;
  #servedBefore = 0;
  /** Descriptor of the socket while it is paused. */
  #parked: number | undefined;
  #deferred = false;
  /** `resting`: paused until the next turn. */
  #state: "open" | "resting" | "paused" | "closed" = "open";

  /** `longestRow`: clients before open sockets; `deferredSocket`: once {@link defer} was called. */
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
    const { address, reusePort, descriptors } = options;
    const current = () => this.#counting(this.#deferred ? deferredSocket : socket);
    this.#bound = bind(bun, { address, reusePort, descriptors }, current());
    // Undefined on a descriptor that was handed over: its port is known.
    const { port = 0 } = this.#bound.native;
    this.address = address.kind === "unix" || address.port !== 0 ? address : { ...address, port };
    this.#deferredSocket = deferredSocket;
    this.#bind = () => bind(bun, { address: this.address, reusePort }, current());
  }

  get keepsWaiting(): boolean {
    const { fd } = this.#bound?.native ?? {};
    this.#watch ??= fd === undefined ? undefined : findWatch(fd);
    return this.#watch !== undefined;
  }

  /**
   * Counts clients in a row: the runtime accepts as long as any wait, and under a flood of them would
   * serve no open socket and not notice that one is closed.
   */
  #counting(handler: BunSocketHandler): BunSocketHandler {
    return {
      ...handler,
      open: (socket) => {
        if (served.count !== this.#servedBefore) this.#row = 0;
        handler.open?.(socket);
        // An event that this client caused is not one that an open socket waited for.
        this.#servedBefore = served.count;
        this.#accepted();
      },
    };
  }

  #accepted(): void {
    if (++this.#row < this.#longestRow || this.#state !== "open" || !this.keepsWaiting) return;
    this.#row = 0;
    this.pause();
    this.#state = "resting";
    setImmediate(() => {
      if (this.#state === "resting") this.resume();
    });
  }

  pause(): void {
    if (this.#state === "resting") this.#state = "paused";
    if (this.#state !== "open") return;
    this.#state = "paused";
    if (this.keepsWaiting && this.#watch && report(this.#watch, false)) {
      this.#parked = park(this.#watch);
      return;
    }
    // Without control of the kernel's events the socket is closed meanwhile: clients are refused.
    this.#watch = undefined;
    this.#stop();
  }

  resume(): void {
    if (this.#state === "open" || this.#state === "closed") return;
    this.#unpark();
    if (this.#watch) report(this.#watch, true);
    else this.#bound = this.#bind();
    this.#deferAccept();
    this.#state = "open";
  }

  /** From now on a client is accepted once it has sent something, where the kernel can do that. */
  defer(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    this.#bound?.native.reload({ socket: this.#counting(this.#deferredSocket) });
    this.#deferAccept();
  }

  #deferAccept(): void {
    if (!this.#deferred || !this.#bound || this.address.kind === "unix") return;
    deferAccept(this.#bound.native.fd, DEFER_SECONDS);
  }

  #unpark(): void {
    if (this.#watch && this.#parked !== undefined) unpark(this.#watch, this.#parked);
    this.#parked = undefined;
  }

  copies(): readonly number[] {
    const fd = this.#parked ?? this.#bound?.native.fd;
    const copy = fd === undefined ? undefined : duplicate(fd);
    return copy === undefined ? [] : [copy];
  }

  close({ handedOver } = { handedOver: false }): void {
    if (this.#state === "closed") return;
    // The runtime would remove the file of a unix socket, which the other process uses.
    if (handedOver && this.address.kind === "unix" && this.keepsWaiting) {
      this.pause();
      this.#state = "closed";
      if (this.#parked !== undefined) cLibrary()?.close(this.#parked);
      return;
    }
    this.#unpark();
    this.#state = "closed";
    this.#stop();
  }

  #stop(): void {
    this.#bound?.native.stop(false);
    this.#bound?.file?.remove();
    this.#bound = undefined;
  }
}

/** Several sockets at one address: more data workers had it before than have it now. */
export class JoinedListener implements Listener {
  readonly #all: readonly NativeListener[];
  readonly address: BindAddress;

  constructor(first: NativeListener, others: readonly NativeListener[]) {
    this.#all = [first, ...others];
    this.address = first.address;
  }

  get keepsWaiting(): boolean {
    return this.#all.every(({ keepsWaiting }) => keepsWaiting);
  }

  pause(): void {
    for (const one of this.#all) one.pause();
  }

  resume(): void {
    for (const one of this.#all) one.resume();
  }

  defer(): void {
    for (const one of this.#all) one.defer();
  }

  copies(): readonly number[] {
    return this.#all.flatMap((one) => one.copies());
  }

  close(options?: { readonly handedOver: boolean }): void {
    for (const one of this.#all) one.close(options);
  }
}

interface Bound {
  readonly native: BunListener;
  readonly file: UnixSocketFile | undefined;
}

function bind(
  bun: BunRuntime,
  { address, reusePort, descriptors = [] }: ListenOptions,
  socket: BunSocketHandler,
): Bound {
  const [fd] = descriptors;
  let file: UnixSocketFile | undefined;
  let native: BunListener | undefined;
  try {
    if (address.kind === "unix") {
      file = new UnixSocketFile(address, { isThere: fd !== undefined });
    }
    if (fd !== undefined && reusePort) sharePort(fd);
    native = fd !== undefined
      ? bun.listen({ fd, allowHalfOpen: true, socket })
      : address.kind === "tcp"
      ? bun.listen({
        hostname: address.host,
        port: address.port,
        reusePort,
        exclusive: !reusePort,
        allowHalfOpen: true,
        socket,
      })
      : bun.listen({ unix: file?.path ?? address.path, allowHalfOpen: true, socket });
    cLibrary()?.listen(native.fd, BACKLOG);
    // The process before may have asked for it.
    if (fd !== undefined && address.kind === "tcp") deferAccept(fd, 0);
    file?.publish();
  } catch (error) {
    file?.discard();
    native?.stop(false);
    if (!native && fd !== undefined) cLibrary()?.close(fd);
    throw listenError(address, error);
  }
  return { native, file };
}

/**
 * Clients that may wait for an accept. The runtime asks for 512; with a burst of more, or a busy thread, the
 * kernel would drop clients that believe to be connected. It takes no more than its own limit
 * (`net.core.somaxconn`, 4096 by default).
 */
const BACKLOG = 4_096;
const IPPROTO_TCP = 6;
const TCP_DEFER_ACCEPT = 9;
/** A client silent for longer is accepted all the same, so that its owner can count and judge it. */
const DEFER_SECONDS = 1;

/** Has the kernel hand out a connection once its client has sent something to read; 0 s: at once. */
function deferAccept(fd: number, seconds: number): void {
  const value = new Uint8Array(new Int32Array([seconds]).buffer);
  cLibrary()?.setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, value, value.length);
}
