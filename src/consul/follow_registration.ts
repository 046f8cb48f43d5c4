/**
 * A proxy's registration as a whole. An ingress gateway's has the config entry that says what it listens
 * for, and the names of the services where that names every service: without these it is none. One of a
 * sidecar that exposes the checks of its service has where they go, which is added as soon as it is known.
 *
 * @module
 */

import type { WatchHandle, WatchSink, WatchState } from "./agent.ts";
import type { PollQuestion } from "./watch/blocking_query.ts";
import type { GatewayServices } from "./replies/gateway_services.ts";
import type { IngressEntry } from "./replies/ingress.ts";
import { namesEveryService, withIngressEntry } from "./replies/ingress_listeners.ts";
import type { ExposedPath, Registration } from "./types.ts";
import type { RepeatQuestion } from "./watch/repeat.ts";

export interface RegistrationQuestions {
  readonly registration: PollQuestion<Registration>;
  entryOf(gateway: Registration): PollQuestion<IngressEntry | null>;
  servicesOf(gateway: Registration): PollQuestion<GatewayServices>;
  /** Absent beside servers: no agent runs checks there. */
  checksOf?(serviceId: string): RepeatQuestion<readonly ExposedPath[]>;
  repeat<T>(question: RepeatQuestion<T>, sink: WatchSink<T>): WatchHandle;
  watch<T>(question: PollQuestion<T>, sink: WatchSink<T>): WatchHandle;
}

export function followRegistration(
  questions: RegistrationQuestions,
  sink: WatchSink<Registration>,
): WatchHandle {
  return new RegistrationWatch(questions, sink);
}

class RegistrationWatch implements WatchHandle {
  readonly #questions: RegistrationQuestions;
  readonly #sink: WatchSink<Registration>;
  readonly #own: WatchHandle;
  #entry: {
    readonly gateway: string;
    readonly handle: WatchHandle;
    /** `undefined`: not read yet. */
    value: IngressEntry | null | undefined;
  } | undefined;
  /** Of a gateway whose entry names every service. */
  #services: {
    readonly handle: WatchHandle;
    value: GatewayServices | undefined;
  } | undefined;
  #checks: {
    readonly serviceId: string;
    readonly handle: WatchHandle;
    value: readonly ExposedPath[];
  } | undefined;
  #registration: Registration | undefined;
  #stopped = false;

  constructor(questions: RegistrationQuestions, sink: WatchSink<Registration>) {
    this.#questions = questions;
    this.#sink = sink;
    this.#own = questions.watch(questions.registration, {
      onValue: (registration) => this.#take(registration),
      onError: (error) => sink.onError(error),
    });
  }

  /** Of the one that fails, if one does. */
  get state(): WatchState {
    const others = [this.#entry, this.#services, this.#checks].map((other) => other?.handle.state);
    return others.find((state) => state && state.failures > 0) ?? this.#own.state;
  }

  stop(): void {
    this.#stopped = true;
    this.#own.stop();
    this.#forgetEntry();
    this.#checks?.handle.stop();
  }

  #take(registration: Registration): void {
    this.#registration = registration;
    if (registration.ingress) this.#followEntry(registration);
    else this.#forgetEntry();
    this.#followChecks(registration.exposesChecksOf);
    this.#tell();
  }

  #followEntry(registration: Registration): void {
    if (this.#entry?.gateway === registration.service) return;
    this.#forgetEntry();
    const { entryOf, watch } = this.#questions;
    const entry = this.#entry = {
      gateway: registration.service,
      value: undefined as IngressEntry | null | undefined,
      handle: watch(entryOf(registration), {
        onValue: (value) => {
          entry.value = value;
          if (namesEveryService(value)) this.#followServices(registration);
          else this.#forgetServices();
          this.#tell();
        },
        onError: (error) => this.#sink.onError(error),
      }),
    };
  }

  #followServices(gateway: Registration): void {
    if (this.#services) return;
    const { servicesOf, watch } = this.#questions;
    const services: { handle: WatchHandle; value: GatewayServices | undefined } = this.#services = {
      value: undefined,
      handle: watch(servicesOf(gateway), {
        onValue: (value) => {
          services.value = value;
          this.#tell();
        },
        onError: (error) => this.#sink.onError(error),
      }),
    };
  }

  #followChecks(serviceId: string | undefined): void {
    if (this.#checks?.serviceId === serviceId) return;
    this.#checks?.handle.stop();
    this.#checks = undefined;
    const { checksOf, repeat } = this.#questions;
    if (serviceId === undefined || !checksOf) return;
    const value: readonly ExposedPath[] = [];
    const checks = this.#checks = {
      ...{ serviceId, value },
      handle: repeat(checksOf(serviceId), {
        onValue: (paths) => {
          if (JSON.stringify(paths) === JSON.stringify(checks.value)) return;
          checks.value = paths;
          this.#tell();
        },
        onError: (error) => this.#sink.onError(error),
      }),
    };
  }

  #forgetEntry(): void {
    this.#entry?.handle.stop();
    this.#entry = undefined;
    this.#forgetServices();
  }

  #forgetServices(): void {
    this.#services?.handle.stop();
    this.#services = undefined;
  }

  #tell(): void {
    const registration = this.#registration;
    if (this.#stopped || !registration) return;
    if (!registration.ingress) return this.#sink.onValue(this.#withChecks(registration));
    const entry = this.#entry?.value;
    const isAwaited = this.#services !== undefined && this.#services.value === undefined;
    if (entry === undefined || isAwaited) return;
    this.#sink.onValue(withIngressEntry(registration, entry, this.#services?.value));
  }

  /** Paths that were registered come first: they keep their ports. */
  #withChecks(registration: Registration): Registration {
    const checks = this.#checks?.value ?? [];
    if (checks.length > 0) {
      return { ...registration, exposed: [...registration.exposed ?? [], ...checks] };
    }
    if (registration.exposesChecksOf === undefined || this.#questions.checksOf) return registration;
    const warning = "The proxy's Expose.Checks is ignored: no agent runs checks beside servers; " +
      "name their paths in Expose.Paths";
    return { ...registration, warnings: [...registration.warnings, warning] };
  }
}
