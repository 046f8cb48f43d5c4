import { CONSUL } from "../kit/consul.ts";
import { accessLog } from "../stories/access_log.ts";

accessLog(CONSUL);
