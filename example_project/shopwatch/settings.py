"""The project's settings. Each line says why it is here; what is not here has a default that does."""

# Scrapy's own ------------------------------------------------------------------------------------------------

# The project's name, which also stands in each dead letter.
BOT_NAME = "shopwatch"
# Where the spiders are.
SPIDER_MODULES = ["shopwatch.spiders"]
# Ask robots.txt first, and leave alone what it forbids.
ROBOTSTXT_OBEY = True
# So many requests at once to one site. scrapy_resiproxy keeps as many proxy sessions for it, and slows down by itself
# when the site asks for it; no DOWNLOAD_DELAY is needed for that.
CONCURRENT_REQUESTS_PER_DOMAIN = 8
# Seconds after which a page does not come any more. Scrapy's 180 are long for a residential exit, which may just have
# gone off the air: a retry on another one is quicker.
DOWNLOAD_TIMEOUT = 30
# Not a line for each page, but the warnings and the table at the end.
LOG_LEVEL = "INFO"
# Each product goes through these, in the order of their numbers.
ITEM_PIPELINES = {"shopwatch.pipelines.SqlitePipeline": 300}
# Ours: the file that the pipeline writes, in the directory that the crawl is started from.
SQLITE_PATH = "products.db"

# scrapy_resiproxy --------------------------------------------------------------------------------------------

# The one line that switches it on. It takes the place of Scrapy's RetryMiddleware.
ADDONS = {"scrapy_resiproxy.Addon": 500}

# There is no RESIPROXY_PROXY here: it holds a password, and so it comes from the environment variable of that name.
# {session} in it is where the name of a proxy session goes:
#   export RESIPROXY_PROXY='http://user-session-{session}:password@gateway.example:7000'

# What is to be known of a site. The shop's validators stand in its spider, above the callbacks that they protect; the
# API's could as well, and stand here to show that they can: by dotted name, for every page of that host.
RESIPROXY_TARGETS = {
    "api.example": {"validator": "shopwatch.validators.api_page"},
}

# A request is sent at most so often; then it becomes a dead letter. Waiting does not count, whatever the reason. 4 is
# the default.
RESIPROXY_MAX_ATTEMPTS = 4
# A site that has been down for so many seconds is given up for this run, and its requests become dead letters. The
# default, a quarter of an hour; while you try things out, add `-s RESIPROXY_TARGET_GIVE_UP=20` to the command.
RESIPROXY_TARGET_GIVE_UP = 900
# Where dead letters go: one file for each run, in a folder for each spider. This is the default, too.
RESIPROXY_DEADLETTER_FILE = "deadletter/%(name)s/%(time)s.jsonl"
# What a gigabyte costs at your vendor's, in any currency: the end of the log then says what 1,000 good pages cost, and
# which share of the money bought nothing.
RESIPROXY_PRICE_PER_GB = 4.0
