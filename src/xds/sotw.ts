/** The state of the world: every request lists all names, and answers with the last good version. @module */

import { type ResponseFaults, unsubscribedFault } from "./held_resources.ts";
import type { ErrorDetail, SotwRequest, SotwResponse, XdsResource } from "./messages.ts";
import { XdsProtocol } from "./protocol.ts";

interface Stream {
  /** The last response's; "" before the first. */
  nonce: string;
  sentClient: boolean;
  /** Responses that are not answered yet. */
  busy: number;
  /** Names that were unsubscribed on this stream; the server may not know yet. */
  readonly dropped: Set<string>;
  /** Names that were dropped and subscribed again while nothing was sent: the server has not seen it. */
  readonly again: Set<string>;
}

export class SotwProtocol<T> extends XdsProtocol<T, SotwRequest, SotwResponse<T>, Stream> {
  #version = "";

  override change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    const stream = this.stream;
    const before = this.held.names.size;
    const { added, gone } = this.held.change(subscribe, unsubscribe);
    for (const name of gone) {
      stream?.dropped.add(name);
      stream?.again.delete(name);
    }
    for (const name of added) {
      if (stream?.dropped.delete(name) && stream.busy > 0) stream.again.add(name);
    }
    if (added.length === 0 && gone.length === 0) return;
    // A pending answer will list the names that are subscribed then.
    if (!stream || stream.busy > 0 || this.held.names.size === 0) return;
    if (before > 0 && this.acknowledgements.flush()) return;
    this.#request(stream);
  }

  override opened(): void {
    this.stream = { nonce: "", sentClient: false, busy: 0, dropped: new Set(), again: new Set() };
    // A server may stay silent to a client that names its current version: not with names new to it.
    for (const name of this.held.names) if (!this.held.versions.has(name)) this.#version = "";
    this.#request(this.stream);
  }

  protected override arrived(stream: Stream): void {
    stream.busy++;
    this.acknowledgements.drop();
  }

  protected override answer(stream: Stream, response: SotwResponse<T>, error?: ErrorDetail): void {
    stream.busy--;
    stream.nonce = response.nonce;
    if (!error) this.#version = response.version;
    this.acknowledgements.answer(error, () => this.#answer(stream, error));
  }

  /**
   * Names that were dropped and subscribed again are left out of a first request: a server that never saw
   * them missing would not send them.
   */
  #answer(stream: Stream, error?: ErrorDetail): void {
    const { again } = stream;
    const without = stream.busy > 0
      ? []
      : [...again].filter((name) => !this.held.versions.has(name));
    if (stream.busy === 0) again.clear();
    const isGap = without.length > 0 && without.length < this.held.names.size;
    this.#request(stream, error, isGap ? new Set(without) : undefined);
    if (isGap) this.#request(stream);
  }

  protected override async judge(
    stream: Stream,
    response: SotwResponse<T>,
  ): Promise<ResponseFaults> {
    const served = new Set(response.resources.map(({ name }) => name));
    return await this.held.take(response, {
      fault: this.#fault(response.resources.length),
      isCurrent: () => this.stream === stream,
      // A response has one version for all its resources.
      isKnown: ({ name }) => this.held.versions.has(name),
      unexpected: (resource) =>
        stream.dropped.has(resource.name) ? undefined : this.#unexpected(resource, served),
    });
  }

  /** Envoy's texts about a response to one name. */
  #fault(resources: number): string | undefined {
    const { only } = this.held;
    if (only === undefined || resources === 1) return undefined;
    const { service, noun } = this.options.type;
    return resources === 0
      ? `Missing ${service} resources for ${only}`
      : `Unexpected ${service} ${noun}s length: ${resources}`;
  }

  #unexpected(resource: XdsResource<T>, served: ReadonlySet<string>): string {
    const { host, type: { service, noun } } = this.options;
    const { name } = resource;
    const { only } = this.held;
    if (name !== "" && only !== undefined) {
      const text = `Unexpected ${service} ${noun} (expecting ${only}): ${name.slice(0, 256)}`;
      host.rejected(only, text);
      return text;
    }
    const text = unsubscribedFault(resource);
    // A resource without a name may be any of those that the response does not serve.
    if (name === "") {
      for (const other of this.held.names) if (!served.has(other)) host.rejected(other, text);
    }
    return text;
  }

  #request(stream: Stream, error?: ErrorDetail, without?: ReadonlySet<string>): void {
    // A request without names would subscribe to everything.
    if (this.held.names.size === 0) return;
    const { client, send } = this.options;
    send({
      version: this.#version,
      names: [...this.held.names].filter((name) => !without?.has(name)),
      nonce: stream.nonce,
      ...(!stream.sentClient && { client }),
      ...(error && { error }),
    });
    stream.sentClient = true;
  }
}
