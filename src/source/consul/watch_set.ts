/** Running watches by key, and which of them fail. @module */

import type { Clock, ProxyError, Timer } from "../../base/mod.ts";
import type { WatchHandle, WatchSink, WatchState } from "../../consul/mod.ts";
import type { Failing } from "../shell/source.ts";

/** Failing watches are looked at this often: a recovery without a changed value is not reported. */
const CHECK_MS = 1_000;

export type Starter<T> = (sink: WatchSink<T>) => WatchHandle;

interface WatchSetOptions {
  readonly clock: Clock;
  readonly onFailing: (failing: Failing) => void;
  readonly onRecovered: (failing: Failing) => void;
}

interface Running {
  handle: WatchHandle | undefined;
  stopped: boolean;
  failing: Failing | undefined;
}

export class WatchSet {
  readonly #options: WatchSetOptions;
  readonly #running = new Map<string, Running>();
  #checking: Timer | undefined;

  constructor(options: WatchSetOptions) {
    this.#options = options;
  }

  keys(): readonly string[] {
    return [...this.#running.keys()];
  }

  /** Runs a watch under `key` unless one runs already. */
  ensure<T>(key: string, start: Starter<T>, onValue: (value: T) => void): void {
    if (this.#running.has(key)) return;
    const running: Running = { handle: undefined, stopped: false, failing: undefined };
    this.#running.set(key, running);
    running.handle = start({
      onValue: (value) => {
        if (running.stopped) return;
        this.#recovered(running);
        onValue(value);
      },
      onError: (error) => {
        if (!running.stopped) this.#failed(key, running, error);
      },
    });
    if (running.stopped) running.handle.stop();
  }

  /** The value of this watch is in use: the watch should get a connection of its own. */
  touch(key: string): void {
    this.#running.get(key)?.handle?.touch?.();
  }

  stop(key: string): void {
    const running = this.#running.get(key);
    if (!running) return;
    running.stopped = true;
    this.#running.delete(key);
    running.handle?.stop();
    this.#recovered(running);
  }

  /** Why each that fails does, by key. */
  get troubles(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#running].flatMap(([key, { failing }]) => failing ? [[key, failing.message]] : []),
    );
  }

  get failing(): readonly Failing[] {
    return [...this.#running.values()].flatMap(({ failing }) => failing ?? []);
  }

  get states(): readonly WatchState[] {
    return [...this.#running.values()].flatMap(({ handle }) => handle?.state ?? []);
  }

  close(): void {
    this.#checking?.cancel();
    for (const running of this.#running.values()) {
      running.stopped = true;
      running.handle?.stop();
    }
    this.#running.clear();
  }

  #failed(key: string, running: Running, error: ProxyError): void {
    const before = running.failing;
    const sinceMs = before?.sinceMs ?? this.#options.clock.now();
    // The watch's own name is for people, the key is not.
    const watch = running.handle?.state.name ?? key;
    running.failing = { watch, code: error.code, message: error.message, sinceMs };
    if (before?.code === error.code) return;
    if (before) this.#options.onRecovered(before);
    this.#checkLater();
    this.#options.onFailing(running.failing);
  }

  #recovered(running: Running): void {
    const { failing } = running;
    if (!failing) return;
    running.failing = undefined;
    this.#options.onRecovered(failing);
  }

  /** Notices watches that work again without a changed value. */
  #checkLater(): void {
    this.#checking ??= this.#options.clock.after(CHECK_MS, () => {
      this.#checking = undefined;
      for (const running of this.#running.values()) {
        if (running.handle?.state.failures === 0) this.#recovered(running);
      }
      if (this.failing.length > 0) this.#checkLater();
    });
  }
}
