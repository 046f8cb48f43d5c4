/**
 * A proxy's registration as a whole: of an ingress gateway, also the config entry that says what it
 * listens for. Both are followed; one without the other is no registration.
 *
 * @module
 */

import type { WatchHandle, WatchSink, WatchState } from "./agent.ts";
import type { PollQuestion } from "./watch/blocking_query.ts";
import type { IngressEntry } from "./replies/ingress.ts";
import { withIngressEntry } from "./replies/ingress_listeners.ts";
import type { Registration } from "./types.ts";

export interface RegistrationQuestions {
  readonly registration: PollQuestion<Registration>;
  entryOf(gateway: Registration): PollQuestion<IngressEntry | null>;
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
    const entry = this.#entry?.handle.state;
    return entry && entry.failures > 0 ? entry : this.#own.state;
  }

  stop(): void {
    this.#stopped = true;
    this.#own.stop();
    this.#entry?.handle.stop();
  }

  #take(registration: Registration): void {
    this.#registration = registration;
    if (registration.ingress) this.#followEntry(registration);
    else this.#forgetEntry();
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
          this.#tell();
        },
        onError: (error) => this.#sink.onError(error),
      }),
    };
  }

  #forgetEntry(): void {
    this.#entry?.handle.stop();
    this.#entry = undefined;
  }

  #tell(): void {
    const registration = this.#registration;
    if (this.#stopped || !registration) return;
    if (!registration.ingress) return this.#sink.onValue(registration);
    const entry = this.#entry?.value;
    if (entry !== undefined) this.#sink.onValue(withIngressEntry(registration, entry));
  }
}
