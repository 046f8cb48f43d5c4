import { CONSUL } from "../kit/mesh/consul.ts";
import { protocol } from "../stories/protocol.ts";

protocol(CONSUL);
