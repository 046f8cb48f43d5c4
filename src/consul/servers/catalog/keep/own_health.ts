/**
 * How the two services that we register are, asked again and again: the application by whether it
 * answers, and its sidecar by that and by whether it takes connections itself.
 *
 * @module
 */

import type { Address, Clock, Random } from "../../../../base/mod.ts";
import type { Engine } from "../../../../net/mod.ts";
import type { RegisterRequest } from "../../../agent.ts";
import { wakeableSleep } from "../../../watch/wakeable_sleep.ts";
import { checkLocal, type LocalHealth } from "./local_check.ts";

const INTERVAL_MS = 10_000;
/** What is not well is asked sooner, most of all when everything is just starting. */
const RECHECK_MS = 1_000;

const UNKNOWN: LocalHealth = { status: "critical", output: "not asked yet" };
const LEAVING: LocalHealth = { status: "critical", output: "the proxy is ending" };

export interface OwnHealthOptions {
  /** From then on both are critical: nobody new should come. */
  readonly draining: AbortSignal | undefined;
  /** From then on callers are served; `undefined`: already. */
  readonly serving: AbortSignal | undefined;
  readonly deps: {
    readonly clock: Clock;
    readonly random: Random;
    readonly engine: Pick<Engine, "dial">;
  };
  /** The status of one has changed. */
  onNews(): void;
}

export class OwnHealth {
  readonly #request: RegisterRequest;
  readonly #options: OwnHealthOptions;
  #application = UNKNOWN;
  #sidecar = UNKNOWN;

  constructor(request: RegisterRequest, options: OwnHealthOptions) {
    this.#request = request;
    this.#options = options;
  }

  of(serviceId: string): LocalHealth {
    if (this.#options.draining?.aborted) return LEAVING;
    return serviceId === this.#request.applicationId ? this.#application : this.#sidecar;
  }

  /** Goes on asking until `signal`, and asks at once when callers are served. */
  async follow(signal: AbortSignal): Promise<void> {
    const { serving, deps: { clock, random } } = this.#options;
    while (!signal.aborted) {
      const baseMs = this.#sidecar.status === "passing" ? INTERVAL_MS : RECHECK_MS;
      const onWake = (wake: () => void) => {
        serving?.addEventListener("abort", wake);
        return () => serving?.removeEventListener("abort", wake);
      };
      await wakeableSleep(clock, baseMs * (0.9 + 0.2 * random()), { signal, onWake });
      if (!signal.aborted) await this.ask(signal);
    }
  }

  async ask(signal: AbortSignal): Promise<void> {
    const { registration: { bind, local }, httpCheckPath } = this.#request;
    const { engine, clock } = this.#options.deps;
    const asking = { engine, clock, signal };
    const [application, listener] = await Promise.all([
      checkLocal({ address: reachable(local), httpPath: httpCheckPath }, asking),
      checkLocal({ address: reachable(bind), httpPath: "" }, asking),
    ]);
    if (signal.aborted) return;
    const sidecar = listener.status === "passing" ? application : listener;
    const isNews = application.status !== this.#application.status ||
      sidecar.status !== this.#sidecar.status;
    this.#application = application;
    this.#sidecar = sidecar;
    if (isNews) this.#options.onNews();
  }
}

/** Where what listens everywhere is reached from here. */
function reachable(address: Address): Address {
  if (address.kind !== "tcp") return address;
  if (address.host === "0.0.0.0") return { ...address, host: "127.0.0.1" };
  return address.host === "::" ? { ...address, host: "::1" } : address;
}
