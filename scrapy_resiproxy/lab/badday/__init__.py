"""The bad day of ``make demo``: an ordinary Scrapy project whose one spider meets seven sites.

``stock`` and ``guarded`` are two settings modules for the very same spider: the first is what people write by hand,
the second switches scrapy_resiproxy on.
"""
