/**
 * State of the world (`StreamSecrets`): every request lists all names, every response is answered with
 * its version, or with the last good one and what is wrong. Pure: messages in, messages out.
 *
 * @module
 */

import {
  type ErrorDetail,
  type SdsClient,
  type SdsResource,
  SECRET_TYPE_URL,
  type SotwRequest,
  type SotwResponse,
} from "./sds_messages.ts";
import { Holdings } from "./holdings.ts";
import {
  Answers,
  type ProtocolHost,
  type ProtocolOptions,
  ResponseFaults,
  type SdsProtocol,
} from "./sds_protocol.ts";

interface Stream {
  /** Of the last response, "" before the first. */
  nonce: string;
  sentClient: boolean;
  /** Responses not answered yet. */
  busy: number;
  /** Given up during this stream; the server may not know yet. */
  readonly dropped: Set<string>;
  /** Given up and taken up again while nothing was sent: the server has not seen it. */
  readonly again: Set<string>;
}

export class SotwProtocol implements SdsProtocol<SotwResponse> {
  readonly #client: SdsClient;
  readonly #send: (request: SotwRequest) => void;
  readonly #host: ProtocolHost;
  readonly #answers: Answers;
  readonly #holdings: Holdings;
  #version = "";
  #stream: Stream | undefined;
  #tail: Promise<void> = Promise.resolve();

  constructor(client: SdsClient, options: ProtocolOptions<SotwRequest>) {
    const { send, host, clock, random } = options;
    this.#client = client;
    this.#send = send;
    this.#host = host;
    this.#answers = new Answers(clock, random);
    this.#holdings = new Holdings(host, clock);
  }

  get names(): ReadonlySet<string> {
    return this.#holdings.names;
  }

  get isComplete(): boolean {
    return this.#holdings.isComplete;
  }

  change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    const stream = this.#stream;
    const before = this.names.size;
    const { added, gone } = this.#holdings.change(subscribe, unsubscribe);
    for (const name of gone) {
      stream?.dropped.add(name);
      stream?.again.delete(name);
    }
    for (const name of added) {
      if (stream?.dropped.delete(name) && stream.busy > 0) stream.again.add(name);
    }
    // What is being answered, or put off, will list the names as they are then.
    if (added.length === 0 && gone.length === 0) return;
    if (!stream || stream.busy > 0 || this.names.size === 0) return;
    if (before > 0 && this.#answers.flush()) return;
    this.#request(stream);
  }

  opened(): void {
    this.#stream = { nonce: "", sentClient: false, busy: 0, dropped: new Set(), again: new Set() };
    // Who says that it has a version may hear nothing until the next: not with names new to it.
    for (const name of this.names) if (!this.#holdings.versions.has(name)) this.#version = "";
    this.#request(this.#stream);
  }

  closed(): void {
    this.#stream = undefined;
    this.#answers.drop();
  }

  close(): void {
    this.closed();
    this.#holdings.close();
  }

  message(response: SotwResponse): Promise<void> {
    const stream = this.#stream;
    if (!stream) return Promise.resolve();
    stream.busy++;
    this.#answers.drop();
    return this.#tail = this.#tail.then(() => this.#take(stream, response));
  }

  async #take(stream: Stream, response: SotwResponse): Promise<void> {
    if (this.#stream !== stream) return;
    const faults = await this.#judge(stream, response);
    if (this.#stream !== stream) return;
    stream.busy--;
    stream.nonce = response.nonce;
    if (faults.any) {
      this.#answers.refused(() => this.#answer(stream, faults.detail()));
    } else {
      this.#version = response.version;
      this.#answers.taken(() => this.#answer(stream));
    }
  }

  /** Names taken up again have a request without them first: else their not having come is no news. */
  #answer(stream: Stream, error?: ErrorDetail): void {
    if (stream.busy > 0) return this.#request(stream, { error });
    const { versions } = this.#holdings;
    const without = new Set([...stream.again].filter((name) => !versions.has(name)));
    stream.again.clear();
    const gap = without.size > 0 && without.size < this.names.size;
    this.#request(stream, { error, ...gap && { without } });
    if (gap) this.#request(stream);
  }

  async #judge(stream: Stream, response: SotwResponse): Promise<ResponseFaults> {
    const faults = new ResponseFaults();
    const { resources } = response;
    const whole = this.#wholeFault(response);
    if (whole !== undefined) {
      faults.add(whole);
      for (const name of this.names) this.#host.rejected(name, whole);
      return faults;
    }
    const served = new Set(resources.map(({ name }) => name));
    await this.#holdings.take(resources, faults, {
      isCurrent: () => this.#stream === stream,
      // Of anything in use: a response has one version for all.
      isHeartbeat: ({ name, content }) =>
        content.kind === "heartbeat" && this.#holdings.versions.has(name),
      unexpected: (resource) =>
        stream.dropped.has(resource.name) ? undefined : this.#unexpected(resource, served),
    });
    return faults;
  }

  /** What makes the response as a whole useless. */
  #wholeFault({ typeUrl, resources }: SotwResponse): string | undefined {
    if (typeUrl !== SECRET_TYPE_URL) return `the response is of type "${typeUrl.slice(0, 200)}"`;
    const [only, ...more] = this.names;
    if (only === undefined || more.length > 0 || resources.length === 1) return undefined;
    return resources.length === 0
      ? `Missing SDS resources for ${only}`
      : `Unexpected SDS secrets length: ${resources.length}`;
  }

  /** A resource of no name, or of one that was not asked for. */
  #unexpected({ name, content }: SdsResource, served: ReadonlySet<string>): string {
    if (name === "") {
      const reason = content.kind === "unreadable" ? content.reason : "it has no name";
      const text = `a resource cannot be used: ${reason}`;
      // Whose it is cannot be told: all hear of it that the response does not serve.
      for (const other of this.names) if (!served.has(other)) this.#host.rejected(other, text);
      return text;
    }
    const [only, ...more] = this.names;
    if (only === undefined || more.length > 0) return `"${name.slice(0, 256)}" was not asked for`;
    const text = `Unexpected SDS secret (expecting ${only}): ${name.slice(0, 256)}`;
    this.#host.rejected(only, text);
    return text;
  }

  #request(
    stream: Stream,
    { error, without }: {
      readonly error?: ErrorDetail | undefined;
      readonly without?: ReadonlySet<string>;
    } = {},
  ): void {
    // No name at all would ask for everything there is.
    if (this.names.size === 0) return;
    const client = stream.sentClient ? {} : { client: this.#client };
    stream.sentClient = true;
    this.#send({
      version: this.#version,
      names: [...this.names].filter((name) => !without?.has(name)),
      nonce: stream.nonce,
      ...client,
      ...(error && { error }),
    });
  }
}
