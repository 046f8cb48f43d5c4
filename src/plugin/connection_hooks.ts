/** Calls the `onConnection` hooks in order; synchronously unless one returns a promise. @module */

import type { Deadlines } from "../base/mod.ts";
import type { Connection, Plugin } from "./api.ts";
import { faultOf } from "./source_positions.ts";
import { PluginResponse, type ResponseFailure } from "./messages.ts";
import { IN } from "./hook_marks.ts";
import type { LayerHealth } from "./plugin_health.ts";

export interface ConnectionLayer {
  readonly name: string;
  readonly onConnection: NonNullable<Plugin["onConnection"]>;
  readonly mayBeSkipped: boolean;
  readonly health: LayerHealth;
}

export type ConnectionRefusal = Pick<ResponseFailure, "code" | "reason">;

const ANSWER_LIMIT_MS = 5_000;

export interface ConnectionHooksOptions {
  readonly deadlines: Pick<Deadlines, "after">;
  /** Called once; `undefined`: no plugin refused. */
  readonly onKnown: (refusal: ConnectionRefusal | undefined) => void;
}

export class ConnectionHooks {
  readonly #connection: Connection;
  readonly #layers: readonly ConnectionLayer[];
  readonly #options: ConnectionHooksOptions;

  constructor(
    connection: Connection,
    layers: readonly ConnectionLayer[],
    options: ConnectionHooksOptions,
  ) {
    this.#connection = connection;
    this.#layers = layers;
    this.#options = options;
  }

  /** Calls the hook at `index` and those after it. */
  run(index = 0): void {
    const layer = this.#layers[index];
    if (!layer) return this.#options.onKnown(undefined);
    const { health } = layer;
    if (!health.mayBeCalled()) return this.#skipOrRefuse(layer, index, health.whyBroken);
    const startedMs = health.begin();
    const outer = health.enter(IN.onConnection);
    let answer: unknown;
    try {
      answer = layer.onConnection(this.#connection);
    } catch (error) {
      return this.#failed(layer, index, faultOf(error));
    } finally {
      health.leave(outer);
      if (startedMs !== undefined) health.end(startedMs, "onConnection");
    }
    if (isThenable(answer)) this.#await(layer, index, answer);
    else this.#take(layer, index, answer);
  }

  #await(layer: ConnectionLayer, index: number, answer: PromiseLike<unknown>): void {
    let isKnown = false;
    const once = (then: () => void) => {
      if (isKnown) return;
      isKnown = true;
      deadline.cancel();
      then();
    };
    const fail = (reason: string) => once(() => this.#failed(layer, index, reason));
    const deadline = this.#options.deadlines.after(
      ANSWER_LIMIT_MS,
      () => fail(`onConnection: no answer after ${ANSWER_LIMIT_MS} ms`),
    );
    answer.then(
      (value) => once(() => this.#take(layer, index, value)),
      (error) => fail(faultOf(error)),
    );
  }

  #take(layer: ConnectionLayer, index: number, answer: unknown): void {
    const failure = answer instanceof PluginResponse ? answer.failure : undefined;
    if (answer !== undefined && !failure) {
      return this.#failed(layer, index, "onConnection gave back neither a refusal nor nothing");
    }
    layer.health.passed();
    if (!failure) return this.run(index + 1);
    this.#options.onKnown({ code: failure.code, reason: `${layer.name}: ${failure.reason}` });
  }

  #failed(layer: ConnectionLayer, index: number, reason: string): void {
    layer.health.failed(reason, { hook: "onConnection" });
    this.#skipOrRefuse(layer, index, reason);
  }

  #skipOrRefuse(layer: ConnectionLayer, index: number, reason: string): void {
    if (layer.mayBeSkipped) this.run(index + 1);
    else this.#options.onKnown({ code: "plugin_failed", reason: `${layer.name}: ${reason}` });
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value &&
    typeof value.then === "function";
}
