/**
 * A proxy's registration as a whole. An ingress gateway's is complete with the config entry that lists its
 * listeners, and with the names of the services where the entry names every service. A sidecar that
 * exposes the checks of its service gets their paths as soon as they are known.
 * @module
 */

import type { WatchHandle, WatchSink, WatchState } from "./model/consul.ts";
import type { ExposedPath, Registration } from "./model/values.ts";
import type { GatewayServices, IngressEntry } from "./replies/ingress.ts";
import { namesEveryService, withIngressEntry } from "./replies/ingress_listeners.ts";
import type { PollQuestion } from "./watch/blocking_query.ts";
import type { RepeatQuestion } from "./watch/repeat.ts";

interface RegistrationQuestions {
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

/** A watch whose value is part of the registration. */
interface Part<T> {
  /** The gateway or service that it is about. */
  readonly about: string;
  readonly handle: WatchHandle;
  /** `undefined`: not read yet. */
  value: T | undefined;
}

class RegistrationWatch implements WatchHandle {
  readonly #questions: RegistrationQuestions;
  readonly #sink: WatchSink<Registration>;
  readonly #own: WatchHandle;
  #entry: Part<IngressEntry | null> | undefined;
  /** Present where the gateway's entry names every service. */
  #services: Part<GatewayServices> | undefined;
  #checks: Part<readonly ExposedPath[]> | undefined;
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

  /** The state of a failing part, if there is one. */
  get state(): WatchState {
    const others = [this.#entry, this.#services, this.#checks].map((part) => part?.handle.state);
    return others.find((state) => state && state.failures > 0) ?? this.#own.state;
  }

  stop(): void {
    this.#stopped = true;
    this.#own.stop();
    this.#stopEntry();
    this.#checks?.handle.stop();
  }

  #take(registration: Registration): void {
    this.#registration = registration;
    if (registration.ingress) this.#followEntry(registration);
    else this.#stopEntry();
    this.#followChecks(registration.exposesChecksOf);
    this.#deliver();
  }

  #followEntry(gateway: Registration): void {
    if (this.#entry?.about === gateway.service) return;
    this.#stopEntry();
    const { entryOf, watch } = this.#questions;
    this.#entry = this.#part(gateway.service, (sink) => watch(entryOf(gateway), sink), (entry) => {
      if (namesEveryService(entry)) this.#followServices(gateway);
      else this.#stopServices();
    });
  }

  #followServices(gateway: Registration): void {
    const { servicesOf, watch } = this.#questions;
    this.#services ??= this.#part(gateway.service, (sink) => watch(servicesOf(gateway), sink));
  }

  #followChecks(serviceId: string | undefined): void {
    if (this.#checks?.about === serviceId) return;
    this.#checks?.handle.stop();
    this.#checks = undefined;
    const { checksOf, repeat } = this.#questions;
    if (serviceId === undefined || !checksOf) return;
    this.#checks = this.#part(serviceId, (sink) => repeat(checksOf(serviceId), sink));
  }

  #part<T>(
    about: string,
    start: (sink: WatchSink<T>) => WatchHandle,
    onValue: (value: T) => void = () => {},
  ): Part<T> {
    const part: Part<T> = {
      about,
      value: undefined,
      handle: start({
        onValue: (value) => {
          part.value = value;
          onValue(value);
          this.#deliver();
        },
        onError: (error) => this.#sink.onError(error),
      }),
    };
    return part;
  }

  #stopEntry(): void {
    this.#entry?.handle.stop();
    this.#entry = undefined;
    this.#stopServices();
  }

  #stopServices(): void {
    this.#services?.handle.stop();
    this.#services = undefined;
  }

  #deliver(): void {
    const registration = this.#registration;
    if (this.#stopped || !registration) return;
    if (!registration.ingress) return this.#sink.onValue(this.#withChecks(registration));
    const entry = this.#entry?.value;
    const isAwaited = this.#services !== undefined && this.#services.value === undefined;
    if (entry === undefined || isAwaited) return;
    this.#sink.onValue(withIngressEntry(registration, entry, this.#services?.value));
  }

  /** Registered paths come first: they keep their ports. */
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
