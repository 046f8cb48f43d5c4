/**
 * Sends a public listener the requests of `l7_intentions.ts`, as the caller that each names; and an
 * application behind it that reports what reached it: over HTTP/1.1, HTTP/2 and gRPC.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { connect, type TLSSocket } from "node:tls";
import type { AgentCalls } from "./agent_calls.ts";
import type { Place } from "../wire/echo.ts";
import { answerOf, startRawOrigin, statusOf } from "../wire/http_raw.ts";
import { startHttp2Server } from "../wire/http2_server.ts";
import { frame, FrameWords, headers, join, PREFACE, settings } from "../wire/http2_wire.ts";
import type { Went } from "../../differential/explained.ts";
import type { Answer, Question } from "./l7_intentions.ts";
import type { WrittenRequest } from "../wire/send_request.ts";
import { readLeaf } from "../wire/tls_probe.ts";

const ANSWER_TIMEOUT_MS = 20_000;
const STREAM = 1;
const END_STREAM = 1;
/** The gRPC status that takes the place of 400. */
const GRPC_INTERNAL = "13";

type L7Protocol = "http" | "http2" | "grpc";

/** An application that answers with the path that reached it. */
export async function startPathApp(
  host: string,
  protocol: L7Protocol = "http",
): Promise<Place & AsyncDisposable> {
  if (protocol !== "http") {
    return await startHttp2Server({ host, answer: ({ path }) => ["x-seen", path, "x-seen"] });
  }
  return await startRawOrigin((request, socket) => {
    const [, , path = ""] = /^(\S+) (.*) HTTP\/1\.[01]\r\n/.exec(`${request.head}\r\n`) ?? [];
    if (/^upgrade:/im.test(request.head)) {
      socket.end(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
      );
      return undefined;
    }
    return answerOf("", `HTTP/1.1 200 OK\r\nX-Seen: ${path}`);
  }, { host });
}

/** Sends each request on a connection of its own with the leaf of its source. */
export class QuestionSender {
  readonly #agent: AgentCalls;
  readonly #protocol: L7Protocol;
  readonly #leaves = new Map<string, ReturnType<typeof readLeaf>>();

  constructor(agent: AgentCalls, protocol: L7Protocol = "http") {
    this.#agent = agent;
    this.#protocol = protocol;
  }

  async send(place: Place, question: Question): Promise<Answer> {
    const { source } = question;
    const leaf = this.#leaves.get(source) ?? readLeaf(this.#agent, source);
    this.#leaves.set(source, leaf);
    const { CertPEM: cert, PrivateKeyPEM: key } = await leaf;
    const isHttp1 = this.#protocol === "http";
    const alpn = isHttp1 ? {} : { ALPNProtocols: ["h2"] };
    const socket = connect({ ...place, cert, key, rejectUnauthorized: false, ...alpn });
    if (isHttp1) return await answered(socket, http1Bytes(question), new Http1Answer());
    const bytes = http2Bytes(question, this.#protocol === "grpc");
    return await answered(socket, bytes, new Http2Answer());
  }

  /** Answers in the order of the questions, a few at a time. */
  async sendAll(place: Place, questions: readonly Question[]): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    for (let at = 0; at < questions.length; at += 8) {
      const some = questions.slice(at, at + 8).map((question) => this.send(place, question));
      answers.push(...await Promise.all(some));
    }
    return answers;
  }
}

function http1Bytes({ method, path, fields, body }: Question): Uint8Array {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    "Host: db.test",
    ...fields,
    ...(fields.some((field) => /^connection:/i.test(field)) ? [] : ["Connection: close"]),
    ...(method === "GET" ? [] : [`Content-Length: ${body.length}`]),
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body}`, "latin1");
}

function http2Bytes({ method, path, fields, body }: Question, isGrpc: boolean): Uint8Array {
  const own = fields.map((field) => {
    const [, name = "", value = ""] = /^([^:]*):[ \t]*(.*?)[ \t]*$/.exec(field) ?? [];
    return [name.toLowerCase(), value] as const;
  });
  const pseudo = [
    ...[[":method", method], [":scheme", "https"], [":path", path]] as const,
    [":authority", "db.test"] as const,
  ];
  const grpc = isGrpc ? [["content-type", "application/grpc"], ["te", "trailers"]] as const : [];
  const length = body === "" ? [] : [["content-length", String(body.length)] as const];
  const ends = body === "" ? END_STREAM : 0;
  return join(
    ...[PREFACE, settings(), headers(STREAM, [...pseudo, ...own, ...grpc, ...length], ends)],
    ...(body === "" ? [] : [frame("DATA", END_STREAM, STREAM, Buffer.from(body, "latin1"))]),
  );
}

/** The same for `explain`, which knows one notation of a request. */
export function asWritten(question: Question, protocol: L7Protocol): WrittenRequest {
  const { method, path, fields, body } = question;
  const own = [
    ...protocol !== "http" || fields.some((field) => /^connection:/i.test(field))
      ? []
      : ["connection: close"],
    ...protocol === "grpc" ? ["content-type: application/grpc", "te: trailers"] : [],
  ];
  return {
    method,
    path,
    fields: [...fields, ...own],
    body,
    host: "db.test",
    streamed: false,
    trailers: [],
    upgrade: false,
  };
}

/** The outcome of a request in the form of `explain`; an invalid request is 400 here, or reset. */
export function wentAs(
  { method, path }: Question,
  { status, seen }: Answer = { status: 0 },
  protocol: L7Protocol,
): Went {
  const isGrpc = protocol === "grpc" && status < 100;
  return {
    status: isGrpc ? 200 : protocol === "grpc" && status === 400 ? 0 : status,
    grpcStatus: isGrpc ? status : undefined,
    from: undefined,
    // It switches without a word about the path.
    tries: seen === undefined && status !== 101 ? [] : [`${method} ${seen ?? path}`],
  };
}

/** Reads until there is one. */
interface AnswerReader {
  take(chunk: Uint8Array): Answer | undefined;
  /** The connection is over. */
  ended(): Answer;
}

class Http1Answer implements AnswerReader {
  #text = "";

  take(chunk: Uint8Array): Answer | undefined {
    this.#text += Buffer.from(chunk).toString("latin1");
    const length = this.#text.indexOf("\r\n\r\n");
    if (length < 0) return undefined;
    const head = this.#text.slice(0, length);
    return { status: statusOf({ head }), seen: /^x-seen: (.*)$/im.exec(head)?.[1] };
  }

  ended(): Answer {
    throw new Error(`No response but ${JSON.stringify(this.#text)}`);
  }
}

/** An invalid request is answered 400, or its stream or connection ends: the same outcome. */
class Http2Answer implements AnswerReader {
  readonly #frames = new FrameWords();

  take(chunk: Uint8Array): Answer | undefined {
    this.#frames.take(chunk);
    const head = this.#frames.words.find((words) => words.startsWith(`HEADERS ${STREAM}`));
    if (head === undefined) return this.#isRefused() ? this.ended() : undefined;
    const [, status] = / :status=(\d+)/.exec(head) ?? [];
    const [, grpc = status] = / grpc-status=(\d+)/.exec(head) ?? [];
    if (grpc === GRPC_INTERNAL) return this.ended();
    return { status: Number(grpc), seen: / x-seen=(\S*)/.exec(head)?.[1] };
  }

  #isRefused(): boolean {
    return this.#frames.words.some((words) => /^(GOAWAY|RST_STREAM) /.test(words));
  }

  ended(): Answer {
    return { status: 400 };
  }
}

/** Does not wait for the bytes after the answer. */
function answered(socket: TLSSocket, bytes: Uint8Array, reader: AnswerReader): Promise<Answer> {
  return new Promise<Answer>((resolve, reject) => {
    const over = () => {
      try {
        resolve(reader.ended());
      } catch (error) {
        reject(error);
      }
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => reject(new Error("No answer in time")));
    socket.on("error", reject);
    socket.on("close", over);
    socket.on("data", (chunk: Uint8Array) => {
      const answer = reader.take(chunk);
      if (answer) resolve(answer);
    });
    socket.write(bytes);
  }).finally(() => socket.destroy());
}
