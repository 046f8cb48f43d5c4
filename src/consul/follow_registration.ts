/**
 * A proxy's registration as a whole. An ingress gateway's is complete with the config entry that lists its
 * listeners, and with the names of the services where the entry names every service. A sidecar that
 * exposes the checks of its service gets their paths as soon as they are known.
 *
 * @module
 */

import type { Client } from "./http/client.ts";
import type { WatchHandle, WatchSink, WatchState } from "./model/consul.ts";
import type { ExposedPath, Registration } from "./model/values.ts";
import {
  type GatewayServices,
  gatewayServicesQuestion,
  type IngressEntry,
  ingressEntryQuestion,
} from "./replies/ingress.ts";
import { namesEveryService, withIngressEntry } from "./replies/ingress_listeners.ts";
import type { RunningWatches } from "./running_watches.ts";
import type { PollQuestion } from "./watch/blocking_query.ts";
import type { RepeatQuestion } from "./watch/repeat.ts";

interface RegistrationOptions {
  readonly client: Client;
  readonly watches: RunningWatches;
  readonly registration: PollQuestion<Registration>;
  /** Absent beside servers: no agent runs checks there. */
  checksOf?(serviceId: string): RepeatQuestion<readonly ExposedPath[]>;
}

/** A watch whose value is part of the registration. */
class Part<T> {
  #about: string | undefined;
  handle: WatchHandle | undefined;
  /** `undefined`: not read yet. */
  value: T | undefined;

  /** Starts the watch about that gateway or service in place of another one; `undefined`: none. */
  follow(about: string | undefined, start: (about: string) => WatchHandle): void {
    if (about === this.#about) return;
    this.handle?.stop();
    this.value = undefined;
    this.#about = about;
    this.handle = about === undefined ? undefined : start(about);
  }
}

export class RegistrationWatch implements WatchHandle {
  readonly #options: RegistrationOptions;
  readonly #sink: WatchSink<Registration>;
  readonly #own: WatchHandle;
  readonly #entry = new Part<IngressEntry | null>();
  /** Followed where the gateway's entry names every service. */
  readonly #services = new Part<GatewayServices>();
  readonly #checks = new Part<readonly ExposedPath[]>();
  #registration: Registration | undefined;
  #stopped = false;

  constructor(options: RegistrationOptions, sink: WatchSink<Registration>) {
    this.#options = options;
    this.#sink = sink;
    this.#own = options.watches.watch(options.registration, {
      onValue: (registration) => {
        this.#registration = registration;
        this.#update();
      },
      onError: (error) => sink.onError(error),
    });
  }

  /** The state of a failing part, if there is one. */
  get state(): WatchState {
    const others = [this.#entry, this.#services, this.#checks].map(({ handle }) => handle?.state);
    return others.find((state) => state && state.failures > 0) ?? this.#own.state;
  }

  stop(): void {
    this.#stopped = true;
    for (const handle of [this.#own, this.#entry.handle, this.#services.handle]) handle?.stop();
    this.#checks.handle?.stop();
  }

  #update(): void {
    const registration = this.#registration;
    if (this.#stopped || !registration) return;
    const { client, watches, checksOf } = this.#options;
    const gateway = registration.ingress && registration.service;
    this.#entry.follow(
      gateway,
      () => watches.watch(ingressEntryQuestion(client, registration), this.#sinkOf(this.#entry)),
    );
    const namesEvery = namesEveryService(this.#entry.value ?? null);
    this.#services.follow(
      namesEvery ? gateway : undefined,
      () =>
        watches.watch(gatewayServicesQuestion(client, registration), this.#sinkOf(this.#services)),
    );
    if (checksOf) {
      this.#checks.follow(
        registration.exposesChecksOf,
        (serviceId) => watches.repeat(checksOf(serviceId), this.#sinkOf(this.#checks)),
      );
    }
    if (!registration.ingress) return this.#sink.onValue(this.#withChecks(registration));
    const { value: entry } = this.#entry;
    const { value: services } = this.#services;
    if (entry === undefined || (namesEvery && !services)) return;
    this.#sink.onValue(withIngressEntry(registration, entry, services));
  }

  #sinkOf<T>(part: Part<T>): WatchSink<T> {
    return {
      onValue: (value) => {
        part.value = value;
        this.#update();
      },
      onError: (error) => this.#sink.onError(error),
    };
  }

  /** Registered paths come first: they keep their ports. */
  #withChecks(registration: Registration): Registration {
    const checks = this.#checks.value ?? [];
    if (checks.length > 0) {
      return { ...registration, exposed: [...registration.exposed ?? [], ...checks] };
    }
    if (registration.exposesChecksOf === undefined || this.#options.checksOf) return registration;
    const warning = "The proxy's Expose.Checks is ignored: no agent runs checks beside servers; " +
      "name their paths in Expose.Paths";
    return { ...registration, warnings: [...registration.warnings, warning] };
  }
}
