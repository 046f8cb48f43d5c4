/** One question to the admin server of another process. @module */

import { request } from "node:http";
import { messageOf } from "../base/mod.ts";

export interface AdminAnswer {
  readonly status: number;
  readonly body: string;
  /** Keys are lower-case names. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface AdminAddress {
  readonly host: string;
  readonly port: number;
}

export interface AdminQuestion {
  readonly path: string;
  readonly timeoutMs: number;
  /** Limit of the answer, the rest is dropped; default 64 KiB: another program may answer. */
  readonly limitBytes?: number;
  /** Ends the question: `timeoutMs` is of silence, and an answer may come in drops. */
  readonly signal?: AbortSignal;
}

export type AskAdmin = (admin: AdminAddress, question: AdminQuestion) => Promise<AdminAnswer>;

const BODY_LIMIT_BYTES = 65_536;

/** Rejects with a message for operators when there is no answer. */
export function askAdmin(
  { host, port }: AdminAddress,
  { path, timeoutMs, limitBytes = BODY_LIMIT_BYTES, signal }: AdminQuestion,
): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(new Error(wordsOf(error), { cause: error }));
    const sent = request({ host, port, path, agent: false, ...signal && { signal } }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => {
        body += chunk.slice(0, limitBytes - body.length);
      });
      const { statusCode: status = 0, headers } = reply;
      reply.on("end", () => resolve({ status, body, headers }));
      reply.on("error", failed);
    });
    // Covers silence before the connection and within the answer.
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error("no answer in time")));
    sent.on("error", failed);
    sent.end();
  });
}

/** The engines' messages differ. */
function wordsOf(error: unknown): string {
  const text = messageOf(error);
  const code = (error as { readonly code?: unknown } | undefined)?.code;
  if (code === "ECONNREFUSED" || /refused/i.test(text)) {
    return "connection refused, nothing listens there";
  }
  if (code === "ECONNRESET" || /socket hang up|reset/i.test(text)) {
    return "the connection was closed without an answer";
  }
  return text;
}

export interface FollowQuestion {
  readonly path: string;
  /** Until the head of the response arrives. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** `event`: its type, `message` by default. `id`: `""` where the server gives none. */
  onEvent(data: string, about: { readonly event: string; readonly id: string }): void;
}

/** Silence after which the server is gone: it sends a comment every 15 s. */
const SILENT_MS = 60_000;
/** One event; a longer one is another program's. */
const EVENT_LIMIT_CHARS = 1_048_576;

/**
 * Reads server-sent events until the server ends them (`undefined`) or `signal` aborts (`undefined`). Returns
 * the answer when it is no stream, and rejects with a message for operators when there is none.
 */
export function followAdmin(
  { host, port }: AdminAddress,
  { path, timeoutMs, signal, onEvent }: FollowQuestion,
): Promise<AdminAnswer | undefined> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve(undefined);
    const failed = (error: unknown) => {
      if (signal.aborted) return resolve(undefined);
      reject(new Error(wordsOf(error), { cause: error }));
    };
    const headers = { accept: "text/event-stream" };
    const sent = request({ host, port, path, headers, agent: false }, (reply) => {
      const { statusCode: status = 0, headers } = reply;
      const isStream = headers["content-type"]?.startsWith("text/event-stream") === true;
      sent.setTimeout(SILENT_MS, () => sent.destroy(new Error("the server has fallen silent")));
      let text = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => {
        if (!isStream) return void (text += chunk.slice(0, BODY_LIMIT_BYTES - text.length));
        text += chunk;
        const events = text.split("\n\n");
        text = events.pop() ?? "";
        for (const event of events) readEvent(event, onEvent);
        if (text.length > EVENT_LIMIT_CHARS) sent.destroy(new Error("an event is too long"));
      });
      reply.on("end", () => resolve(isStream ? undefined : { status, body: text, headers }));
      reply.on("error", failed);
    });
    sent.setTimeout(timeoutMs, () => sent.destroy(new Error("no answer in time")));
    sent.on("error", failed);
    signal.addEventListener("abort", () => {
      sent.destroy();
      resolve(undefined);
    }, { once: true });
    sent.end();
  });
}

/** One block of lines, as the admin server writes them. A block of comments is no event. */
function readEvent(block: string, onEvent: FollowQuestion["onEvent"]): void {
  const about = { event: "message", id: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^(data|event|id): ?(.*)$/s.exec(line) ?? [];
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") about[name] = value;
  }
  if (data.length > 0) onEvent(data.join("\n"), about);
}
