import { CONSUL } from "../kit/mesh/consul.ts";
import { accessLog } from "../stories/access_log.ts";

accessLog(CONSUL);
