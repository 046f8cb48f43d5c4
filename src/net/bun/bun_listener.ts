/** A listening socket of Bun that can let its clients wait. @module */

import type { BindAddress } from "../../base/mod.ts";
import { type BunListener, type BunRuntime, type BunSocketHandler, served } from "./bun_sockets.ts";
import { findWatch, park, report, unpark, type Watch } from "../linux/epoll_watch.ts";
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
    const { address, reusePort } = options;
    const current = () => this.#counting(this.#deferred ? deferredSocket : socket);
    this.#bound = bind(bun, { address, reusePort }, current());
    const { port } = this.#bound.native;
    this.address = address.kind === "unix" ? address : { ...address, port };
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
    deferAccept(this.#bound.native.fd);
  }

  #unpark(): void {
    if (this.#watch && this.#parked !== undefined) unpark(this.#watch, this.#parked);
    this.#parked = undefined;
  }

  close(): void {
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

interface Bound {
  readonly native: BunListener;
  readonly file: UnixSocketFile | undefined;
}

function bind(
  bun: BunRuntime,
  { address, reusePort }: ListenOptions,
  socket: BunSocketHandler,
): Bound {
  let file: UnixSocketFile | undefined;
  let native: BunListener | undefined;
  try {
    if (address.kind === "unix") file = new UnixSocketFile(address);
    native = address.kind === "tcp"
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
    file?.publish();
  } catch (error) {
    file?.discard();
    native?.stop(false);
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

/** Has the kernel hand out a connection once its client has sent something to read. */
function deferAccept(fd: number): void {
  const value = new Uint8Array(new Int32Array([DEFER_SECONDS]).buffer);
  cLibrary()?.setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, value, value.length);
}
