"""Is it the same patient? Does it leak?"""
