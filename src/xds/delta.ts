/** The incremental variant: changes only; a new stream begins with the versions that are held. @module */

import { type ResponseFaults, unsubscribedFault } from "./held_resources.ts";
import type { DeltaRequest, DeltaResponse, ErrorDetail } from "./messages.ts";
import { XdsProtocol } from "./protocol.ts";

interface Stream {
  /** Names that were unsubscribed on this stream; the server may not know yet. */
  readonly dropped: Set<string>;
}

export class DeltaProtocol<T> extends XdsProtocol<T, DeltaRequest, DeltaResponse<T>, Stream> {
  override change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    const stream = this.stream;
    const { added, gone } = this.held.change(subscribe, unsubscribe);
    for (const name of gone) stream?.dropped.add(name);
    for (const name of added) stream?.dropped.delete(name);
    if (!stream || (gone.length === 0 && added.length === 0)) return;
    // A name that is dropped and subscribed at once is requested again.
    this.#send({
      subscribe: added,
      unsubscribe: gone.filter((name) => !this.held.names.has(name)),
    });
  }

  override opened(): void {
    this.stream = { dropped: new Set() };
    this.#send({
      client: this.options.client,
      subscribe: [...this.held.names],
      initialVersions: new Map(this.held.versions),
    });
  }

  protected override async judge(
    stream: Stream,
    response: DeltaResponse<T>,
  ): Promise<ResponseFaults> {
    // Unlike in the state of the world, every response has its own answer, delayed or not.
    this.acknowledgements.flush();
    const { only } = this.held;
    const isEmpty = response.resources.length === 0 && response.removed.length === 0;
    return await this.held.take(response, {
      fault: isEmpty && only !== undefined
        ? `Missing ${this.options.type.service} resources for ${only}`
        : undefined,
      isCurrent: () => this.stream === stream,
      isKnown: ({ name, version }) => this.held.versions.get(name) === version,
      unexpected: (resource) =>
        stream.dropped.has(resource.name) ? undefined : unsubscribedFault(resource),
    });
  }

  protected override answer(
    _stream: Stream,
    { nonce }: DeltaResponse<T>,
    error?: ErrorDetail,
  ): void {
    this.acknowledgements.answer(error, () => this.#send({ nonce, ...(error && { error }) }));
  }

  #send(parts: Partial<DeltaRequest>): void {
    this.options.send({ ...EMPTY, ...parts });
  }
}

const NO_VERSIONS: ReadonlyMap<string, string> = new Map();
/** The nonce is empty in requests that answer no response. */
const EMPTY = { subscribe: [], unsubscribe: [], initialVersions: NO_VERSIONS, nonce: "" };
