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
}

export type AskAdmin = (admin: AdminAddress, question: AdminQuestion) => Promise<AdminAnswer>;

const BODY_LIMIT_BYTES = 65_536;

/** Rejects with a message for operators when there is no answer. */
export function askAdmin(
  { host, port }: AdminAddress,
  { path, timeoutMs, limitBytes = BODY_LIMIT_BYTES }: AdminQuestion,
): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(new Error(wordsOf(error), { cause: error }));
    const sent = request({ host, port, path, agent: false }, (reply) => {
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
