/** Reads that can be waited on: their query, their answer, and what it lacks. @module */

import { formatDurationMs } from "../../base/mod.ts";
import type { ConsulCall } from "../http/carrier.ts";
import type { Client, ConsulReply } from "../http/client.ts";
import type { PollAnswer, PollQuestion, PollRequest } from "../watch/blocking_query.ts";

/** `-datacenter` and `-stale` as they apply to a read; `datacenter` wins over the flag. */
export function readQuery(
  client: Client,
  options: { readonly stale: boolean; readonly datacenter?: string },
): Required<Pick<ConsulCall, "query" | "flags">> {
  return {
    query: { dc: options.datacenter || client.options.datacenter },
    flags: options.stale && client.options.stale ? ["stale"] : [],
  };
}

interface PolledCall extends
  Pick<
    ConsulCall,
    | "absentIsAnswer"
    | "body"
    | "changesNothing"
    | "flags"
    | "method"
    | "needs"
    | "path"
    | "query"
    | "resource"
    | "what"
  > {
  readonly datacenter?: string;
  /** `-stale` does not apply. */
  readonly isLocal?: true;
}

/** Sends a call with the request's index and wait, deadline and end. */
export function pollCall(
  client: Client,
  request: PollRequest<unknown>,
  { datacenter = "", isLocal, ...call }: PolledCall,
): Promise<ConsulReply> {
  const { cursor, stale, waitMs, timeoutMs, signal, last } = request;
  const read = readQuery(client, { stale: !isLocal, datacenter });
  const waiting = cursor === undefined ? {} : { index: cursor, wait: formatDurationMs(waitMs) };
  return client.call({
    ...call,
    query: { ...call.query, ...read.query, ...waiting },
    flags: [...call.flags ?? [], ...read.flags, ...stale ? ["stale"] : []],
    timeoutMs,
    signal,
    lastDigest: last?.digest ?? "",
  });
}

/** The value that `read` makes of a reply, or made of the same bytes before. */
export function answerOf<T>(
  reply: ConsulReply,
  { last }: PollRequest<T>,
  read: (json: unknown) => T,
): PollAnswer<T> {
  const value = reply.isSame && last ? last.value : read(reply.json);
  return { value, ...reply.digest !== undefined && { digest: reply.digest }, ...cursorOf(reply) };
}

/** The index to go on from, where the reply has one. */
export function cursorOf(reply: ConsulReply): { readonly cursor?: string } {
  return reply.index === undefined ? {} : { cursor: String(reply.index) };
}

interface AskedCall<T> extends Omit<PollQuestion<T>, "poll"> {
  readonly call: Omit<PolledCall, "resource">;
  read(json: unknown): T;
  /** Runs on each answer, also on the same as before. */
  finish?(value: T): T | Promise<T>;
}

export function callQuestion<T>(client: Client, asked: AskedCall<T>): PollQuestion<T> {
  const { call, read, finish, ...question } = asked;
  return {
    ...question,
    async poll(request) {
      const reply = await pollCall(client, request, { resource: question.resource, ...call });
      const answer = answerOf(reply, request, read);
      return finish ? { ...answer, value: await finish(answer.value) } : answer;
    },
  };
}

/** A question about a config entry that is watched by itself; `null`: there is no such entry. */
export function entryQuestion<T>(
  client: Client,
  { path, what, ...question }: Omit<AskedCall<T | null>, "call"> & {
    /** `jwt-provider/okta`, encoded. */
    readonly path: string;
    /** After "read the". */
    readonly what: string;
  },
): PollQuestion<T | null> {
  return callQuestion(client, {
    isRare: true,
    lacks: (after, before) => after === null && before !== null,
    call: { what: `read the ${what}`, path: `/v1/config/${path}`, absentIsAnswer: true },
    ...question,
  });
}

/** Some item of `before` has no namesake in `after`. */
export function isMissing<T>(
  after: readonly T[],
  before: readonly T[],
  nameOf: (item: T) => string,
): boolean {
  const names = new Set(after.map(nameOf));
  return before.some((item) => !names.has(nameOf(item)));
}
